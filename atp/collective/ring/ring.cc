#include "atp/collective/ring/ring.h"

#include <utility>

#include "atp/collective/ring/ring_impl.h"

namespace atp {
namespace {

constexpr const char* kForked =
    "this process was forked after the ring was made and has no part in it: make a ring of its own";

Status check(const RingOptions& options, const std::vector<Endpoint>& addresses) {
  if (options.world_size > 0 && addresses.size() == options.world_size &&
      options.rank < options.world_size) {
    return ok_status();
  }
  return Error{"rank " + std::to_string(options.rank) + " of " +
               std::to_string(options.world_size) + " ranks with " +
               std::to_string(addresses.size()) + " addresses: expected an address for each rank"};
}

}  // namespace

Result<std::unique_ptr<Ring>> Ring::connect(const RingListener& listener,
                                            const RingOptions& options,
                                            const std::vector<Endpoint>& addresses) {
  const Status valid = check(options, addresses);
  if (!valid) return valid.error();
  std::unique_ptr<RingEngine> engine;
  std::unique_ptr<Waker> waker;
  if (options.world_size > 1) {
    Result<Links> links = connect_links(listener, options, addresses);
    if (!links) return links.error();
    Result<std::unique_ptr<Waker>> made = Waker::create();
    if (!made) return made.error();
    waker = std::move(made).value();
    engine = std::make_unique<RingEngine>(options, std::move(links).value());
  }
  auto impl = std::make_shared<Impl>(options, std::move(engine), std::move(waker));
  impl->start();
  return std::unique_ptr<Ring>(new Ring(std::move(impl)));
}

Ring::Ring(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

// In a forked child nothing may be joined, closed or freed. The thread that stayed behind in the
// parent holds a reference, here too.
Ring::~Ring() {
  if (!impl_->forked()) impl_->close("the ring was destroyed");
}

std::size_t Ring::rank() const { return impl_->options().rank; }
std::size_t Ring::world_size() const { return impl_->options().world_size; }

RingHandle Ring::submit(RingRequest request) {
  if (impl_->forked()) {
    auto operation = std::make_shared<RingOperation>(std::move(request), 0);
    operation->finish(Error{operation->text() + ": " + kForked});
    return RingHandle(std::move(operation));
  }
  return RingHandle(impl_->submit(std::move(request)));
}

Status Ring::shutdown(std::chrono::milliseconds timeout) {
  return impl_->forked() ? Error{kForked} : impl_->shutdown(timeout);
}

void Ring::abort(const std::string& why) {
  if (!impl_->forked()) impl_->close(why);
}

RingCounterList Ring::counters() const {
  return impl_->forked() ? RingCounterList() : impl_->counters();
}

RingHandle::RingHandle(std::shared_ptr<RingOperation> operation)
    : operation_(std::move(operation)) {}

Status RingHandle::wait() const { return operation_->wait(); }
bool RingHandle::done() const { return operation_->done(); }

}  // namespace atp
