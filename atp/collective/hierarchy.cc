// Decides whether the ranks of a job sum in memory: on their one host, or on each of several.
#include "atp/collective/hierarchy.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "atp/collective/base/hosts.h"
#include "atp/collective/base/number_text.h"
#include "atp/collective/base/transport_thread.h"
#include "atp/collective/base/uplink.h"
#include "atp/collective/communicator.h"
#include "atp/collective/shm/shm_transport.h"

namespace atp {
namespace {

constexpr const char* kTakeTheNetwork = ", so they use the network";

std::string numbers_text(const CommunicatorOptions& options) {
  return format_text(static_cast<std::uint32_t>(options.number_format));
}

std::function<void(const std::string&)> lines_of(const CommunicatorOptions& options) {
  return [&options](const std::string& text) { options.warn(text); };
}

Result<MemoryRendezvous> meet_on_one_host(const CommunicatorOptions& options) {
  std::string why_not = "the fixed scale needs the network";
  if (options.number_format != NumberFormat::kFixed) {
    Result<HostRendezvousOutcome> outcome = meet_on_host({.job = options.job,
                                                          .rank = options.rank,
                                                          .world_size = options.world_size,
                                                          .timeout = options.join_timeout,
                                                          .interruption = options.interruption,
                                                          .numbers = numbers_text(options),
                                                          .warn = lines_of(options)});
    if (!outcome) return outcome.error();
    if (outcome.value().place) {
      auto transport = ShmTransport::open(options, *std::move(outcome.value().place));
      if (!transport) return transport.error();
      return MemoryRendezvous{std::move(transport).value(), options.job};
    }
    why_not = outcome.value().why_not;
  }
  const std::string reason = "the ranks of this host cannot sum in shared memory (" + why_not + ")";
  if (options.route.empty()) {
    return Error{reason +
                 ", and no route to a server was given: set ATP_ROUTE, or start them under "
                 "`atp run --switch`"};
  }
  if (options.rank == 0) options.warn(reason + kTakeTheNetwork);
  return MemoryRendezvous{nullptr, options.job};
}

// A leader among the leaders of all hosts: they are the job's workers in the network, one per host,
// and combine words of int32.
class LeaderUplink final : public HostUplink {
 public:
  // `options` are those of a rank that leads its host. Blocks until all leaders have joined.
  static Result<std::unique_ptr<LeaderUplink>> connect(const CommunicatorOptions& options);

  // Returns true if every leader calls it with true. `options`: as for connect(); one join_timeout
  // bounds both.
  Result<bool> agree(bool mine, const CommunicatorOptions& options);

  void combine(const Words& words, std::function<void(bool)> ended) override;
  std::optional<std::string> failure() const override;
  FailureKind failure_kind() const override { return communicator_->failure_kind(); }
  std::optional<WaitedForRanks> waited_for() const override { return communicator_->waited_for(); }
  void give_up(const std::string& why) override { communicator_->give_up(why); }

  Status shutdown(std::chrono::milliseconds timeout) override {
    return communicator_->shutdown(timeout);
  }
  void abort(const std::string& why) override { communicator_->abort(why); }
  CounterList counters() const override { return communicator_->counters(); }
  std::map<Rank, Duration> waits() const override { return communicator_->waits(); }

 private:
  explicit LeaderUplink(std::unique_ptr<Communicator> communicator)
      : communicator_(std::move(communicator)) {}
  void note(const std::string& failure);

  mutable std::mutex mutex_;
  std::optional<std::string> failure_;
  const std::unique_ptr<Communicator> communicator_;
};

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
  const CollectiveRequest asked{
      .reduction = ElementReduction::kMax,
      .timeout = left_to_join(options),
      .on_done = [against](const Status&) {},  // after an interruption, too, it writes there
  };
  const Status ended = communicator_
                           ->all_reduce(std::as_writable_bytes(std::span(against.get(), 1)),
                                        ElementKind::kInt32, asked)
                           .wait_or_interrupted(options.interruption);
  if (!ended) return Error{communicator_->failure().value_or(ended.error().message)};
  return *against == 0;
}

void LeaderUplink::combine(const Words& words, std::function<void(bool)> ended) {
  CollectiveRequest options{.reduction = element_reduction_of(words.reduction),
                            .tag = words.tag,
                            .timeout = words.timeout,
                            .timeout_is_total = false,
                            .part_of = words.of};
  options.on_done = [this, ended = std::move(ended)](const Status& status) {
    if (!status) note(communicator_->failure().value_or(status.error().message));
    ended(status.ok());
  };
  communicator_->all_reduce(std::as_writable_bytes(std::span(words.at, words.count)),
                            ElementKind::kInt32, std::move(options));
}

void LeaderUplink::note(const std::string& failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = failure;
}

std::optional<std::string> LeaderUplink::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

// A rank's part in the rendezvous of a job with several hosts.
class OneOfSeveral {
 public:
  explicit OneOfSeveral(const CommunicatorOptions& options)
      : options_(options),
        hosts_(options.host_of),
        host_(options.host_of[options.rank]),
        ranks_(hosts_.ranks_on(host_)),
        rank_(static_cast<std::size_t>(std::find(ranks_.begin(), ranks_.end(), options.rank) -
                                       ranks_.begin())) {}

  Result<MemoryRendezvous> meet();

 private:
  Status meet_here();
  Result<bool> lead();
  MemoryRendezvous without_memory() const { return {nullptr, job_of_all_ranks(options_.job)}; }

  const CommunicatorOptions& options_;
  const Hosts hosts_;
  const std::size_t host_;
  const std::vector<Rank>& ranks_;           // of this host
  const std::size_t rank_;                   // among them
  std::shared_ptr<ShmTransport> transport_;  // null: they have no shared memory,
  std::string why_not_;                      // for this reason
};

Status OneOfSeveral::meet_here() {
  const HostOfSeveral of_several{
      .number = host_, .most_ranks = hosts_.most_ranks(), .ranks = ranks_};
  Result<HostRendezvousOutcome> outcome = meet_on_host({.job = options_.job,
                                                        .rank = rank_,
                                                        .world_size = ranks_.size(),
                                                        .of_several = of_several,
                                                        .timeout = options_.join_timeout,
                                                        .interruption = options_.interruption,
                                                        .numbers = numbers_text(options_),
                                                        .warn = lines_of(options_)});
  if (!outcome) return outcome.error();
  why_not_ = outcome.value().why_not;
  if (!outcome.value().place) return ok_status();
  auto transport = ShmTransport::open(options_, *std::move(outcome.value().place));
  if (!transport) return transport.error();
  transport_ = std::move(transport).value();
  return ok_status();
}

// Meets the other leaders. Returns whether the ranks of all hosts have shared memory.
Result<bool> OneOfSeveral::lead() {
  Result<std::unique_ptr<LeaderUplink>> uplink = LeaderUplink::connect(options_);
  Result<bool> all =
      uplink ? uplink.value()->agree(transport_ != nullptr, options_) : uplink.error();
  if (transport_ == nullptr) {
    options_.warn("the ranks of the host of rank " + std::to_string(options_.rank) +
                  " cannot sum in shared memory (" + why_not_ + ")" + kTakeTheNetwork);
  } else if (!all) {
    transport_->give_up_rendezvous(all.error().message);
  } else if (all.value()) {
    transport_->lead(std::move(uplink).value());
    return true;
  } else {
    transport_->say_without_memory();
  }
  if (uplink && !all) uplink.value()->abort(all.error().message);
  if (all) static_cast<void>(uplink.value()->shutdown(left_until(*options_.join_until)));
  return all;
}

Result<MemoryRendezvous> OneOfSeveral::meet() {
  const Status here = meet_here();
  if (!here) return here.error();
  const bool leads = rank_ == 0;
  if (!leads && transport_ == nullptr) return without_memory();
  const Result<bool> all = leads ? lead() : transport_->hear_of_leaders();
  if (all && all.value()) return MemoryRendezvous{transport_, options_.job};
  if (transport_ != nullptr)
    transport_->abort(all ? "the job uses the network" : all.error().message);
  if (!all) return all.error();
  return without_memory();
}

}  // namespace

// The leaders have already joined the job as its workers, so all ranks together need another job.
// It has another number, because ranks in two incarnations of one job would get warnings.
JobKey job_of_all_ranks(const JobKey& job) {
  constexpr std::uint32_t kOther = 0x686f7374;
  return {atp_fmix32(job.job ^ kOther), job.incarnation};
}

Result<MemoryRendezvous> meet_in_memory(const CommunicatorOptions& options) {
  if (sums_on_hosts(options)) return OneOfSeveral(options).meet();
  if (options.host_memory) return meet_on_one_host(options);
  return MemoryRendezvous{nullptr, options.job};
}

}  // namespace atp
