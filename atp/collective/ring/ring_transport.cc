#include "atp/collective/ring/ring_transport.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace atp {
namespace {

using SteadyClock = std::chrono::steady_clock;

// A ring calls back from within submit() if it refuses the operation. A Transport must not do that,
// because its caller holds a lock then.
class Submitting {
 public:
  // True: the callback ran within submit(), so this keeps the result for submit()'s caller.
  bool keeps(const Status& status) {
    if (std::this_thread::get_id() != caller_ || !submitting_) return false;
    if (!status) refused_ = status.error().message;
    return true;
  }
  std::optional<std::string> end() {
    submitting_ = false;
    return refused_;
  }

 private:
  // Only this thread reads the rest.
  const std::thread::id caller_ = std::this_thread::get_id();
  bool submitting_ = true;
  std::optional<std::string> refused_;
};

class RingTransport final : public Transport {
 public:
  explicit RingTransport(std::unique_ptr<Ring> ring) : ring_(std::move(ring)) {}

  Status wait_until_joined() override { return ok_status(); }
  std::optional<std::string> submit(std::shared_ptr<PendingOperation> operation) override;
  Status shutdown(SteadyClock::time_point until, std::chrono::milliseconds) override {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - SteadyClock::now());
    return ring_->shutdown(std::max(left, std::chrono::milliseconds(0)));
  }
  void abort(const std::string& why) override { ring_->abort(why); }
  bool wait_until_idle(SteadyClock::time_point until) override {
    return ring_->wait_until_idle(until);
  }
  void give_up(const std::string& why) override { ring_->give_up(why); }
  std::optional<std::string> failure() const override { return ring_->failure(); }
  FailureKind failure_kind() const override { return ring_->failure_kind(); }
  std::size_t value_count() const override { return 0; }
  CounterList counters() const override { return ring_->counters(); }
  std::optional<WaitedForRanks> waited_for() const override { return ring_->waited_for(); }
  std::map<Rank, Duration> waits() const override { return ring_->waits(); }
  bool on_own_thread() const override { return ring_->on_own_thread(); }

 private:
  const std::unique_ptr<Ring> ring_;
};

std::optional<std::string> RingTransport::submit(std::shared_ptr<PendingOperation> operation) {
  RingRequest request =
      all_reduce_request(ElementType::kFloat32, operation->bytes(), ring_->world_size());
  request.reduction = operation->options().reduction;
  request.format = operation->format();
  request.segments = operation->layout().lengths();
  request.timeout = operation->options().timeout;
  request.timeout_is_total = operation->options().timeout_is_total;
  request.spent = operation->options().spent;
  const auto submitting = std::make_shared<Submitting>();
  request.on_done = [submitting, operation = std::move(operation)](const Status& status) {
    if (!submitting->keeps(status)) operation->finish(status);
  };
  ring_->submit(std::move(request));
  return submitting->end();
}

}  // namespace

std::shared_ptr<Transport> ring_transport(std::unique_ptr<Ring> ring) {
  return std::make_shared<RingTransport>(std::move(ring));
}

}  // namespace atp
