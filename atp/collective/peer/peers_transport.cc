#include "atp/collective/peer/peers_transport.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace atp {
namespace {

using SteadyClock = std::chrono::steady_clock;

// A group of peers calls back from within submit() if it refuses the operation. A Transport must
// not do that, because its caller holds a lock then.
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

class PeersTransport final : public Transport {
 public:
  explicit PeersTransport(std::shared_ptr<Peers> peers) : peers_(std::move(peers)) {}

  Status wait_until_joined() override { return ok_status(); }
  std::optional<std::string> submit(std::shared_ptr<PendingOperation> operation) override;
  void reserve(PendingOperation& operation) override { operation.set_reserved(peers_->reserve(1)); }
  void skip(const PendingOperation& operation) override { peers_->skip(operation.reserved()); }
  Status shutdown(SteadyClock::time_point until, std::chrono::milliseconds) override {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - SteadyClock::now());
    return peers_->shutdown(std::max(left, std::chrono::milliseconds(0)));
  }
  void abort(const std::string& why) override { peers_->abort(why); }
  bool wait_until_idle(SteadyClock::time_point until) override {
    return peers_->wait_until_idle(until);
  }
  void give_up(const std::string& why) override { peers_->give_up(why); }
  std::optional<std::string> failure() const override { return peers_->failure(); }
  FailureKind failure_kind() const override { return peers_->failure_kind(); }
  std::size_t value_count() const override { return 0; }
  CounterList counters() const override { return peers_->counters(); }
  bool on_own_thread() const override { return peers_->on_own_thread(); }

 private:
  const std::shared_ptr<Peers> peers_;
};

std::optional<std::string> PeersTransport::submit(std::shared_ptr<PendingOperation> operation) {
  CollectiveRequest request = operation->request();
  request.format.reset();
  request.segments.clear();
  if (request.kind == ElementKind::kFloat32) {
    request.format = operation->format();
    request.segments = operation->layout().lengths();
  }
  request.number = operation->reserved();
  const auto submitting = std::make_shared<Submitting>();
  request.on_done = [submitting, operation = std::move(operation)](const Status& status) {
    if (!submitting->keeps(status)) operation->finish(status);
  };
  peers_->submit(std::move(request));
  return submitting->end();
}

}  // namespace

std::shared_ptr<Transport> peers_transport(std::shared_ptr<Peers> peers) {
  return std::make_shared<PeersTransport>(std::move(peers));
}

}  // namespace atp
