#include "atp/collective/leader_uplink.h"

#include <utility>

#include "atp/collective/lane.h"

namespace atp {

Result<std::unique_ptr<LeaderUplink>> LeaderUplink::connect(const CommunicatorOptions& options) {
  const Hosts hosts(options.host_of);
  CommunicatorOptions own = options;
  own.rank = static_cast<Rank>(options.host_of[options.rank]);
  own.world_size = hosts.count();
  own.names = hosts.leaders();
  own.host_of.clear();
  own.number_format = NumberFormat::kBlocks;  // for the express stream: words have no format
  own.records_operations = false;             // they are parts of the ranks' operations
  own.digest = false;
  own.digest_every = 0;
  auto communicator = Communicator::connect(own);
  if (!communicator) return communicator.error();
  return std::unique_ptr<LeaderUplink>(new LeaderUplink(std::move(communicator).value()));
}

Result<bool> LeaderUplink::agree(bool mine, const CommunicatorOptions& options) {
  const auto against = std::make_shared<std::int32_t>(mine ? 0 : 1);
  const Values values{reinterpret_cast<std::byte*>(against.get()), 1, DataType::kInt32};
  const AllReduceOptions asked{
      .reduction = Reduction::kMax,
      .timeout = left_to_join(options),
      .timeout_is_total = true,
      .on_done = [against](const Status&) {},  // after an interruption, too, it writes there
  };
  const Status ended =
      communicator_->all_reduce(values, asked).wait_or_interrupted(options.interruption);
  if (!ended) return Error{communicator_->failure().value_or(ended.error().message)};
  return *against == 0;
}

void LeaderUplink::combine(const Words& words, std::function<void(bool)> ended) {
  const Values values{reinterpret_cast<std::byte*>(words.at), words.count, DataType::kInt32};
  AllReduceOptions options{.reduction = words.reduction,
                           .tag = words.tag,
                           .part_of = words.of,
                           .timeout = words.timeout};
  options.on_done = [this, ended = std::move(ended)](const Status& status) {
    if (!status) note(communicator_->failure().value_or(status.error().message));
    ended(status.ok());
  };
  communicator_->all_reduce(values, options);
}

void LeaderUplink::note(const std::string& failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = failure;
}

std::optional<std::string> LeaderUplink::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace atp
