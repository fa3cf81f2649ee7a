// Chooses the transport of each operation, and connects the ranks once they have joined.
#include "atp/collective/group.h"

#include <algorithm>
#include <utility>

#include "atp/collective/base/number_text.h"
#include "atp/collective/peer/address_exchange.h"
#include "atp/collective/peer/peers.h"
#include "atp/driver/tcp/tcp_listener.h"
#include "atp/driver/udp/address.h"

namespace atp {
namespace {

constexpr Endpoint kLoopback = Endpoint::ipv4(127, 0, 0, 1, 0);

// The address for the other ranks: that of the first hop's network, but not loopback if a further
// hop is elsewhere.
Result<Endpoint> own_address(const CommunicatorOptions& options, bool on_one_host) {
  Endpoint found = kLoopback;
  if (on_one_host) return found;
  for (const Endpoint& hop : options.route) {
    const Result<Endpoint> source = source_towards(hop);
    if (!source) return source;
    if (!is_loopback(source.value())) return source;
    found = source.value();
  }
  return found;
}

std::string name_of_type(std::uint8_t kind) {
  return std::string(to_string(static_cast<ElementKind>(kind)));
}

PeerOptions peer_options(const CommunicatorOptions& options) {
  PeerOptions peers;
  peers.rank = options.rank;
  peers.world_size = options.world_size;
  peers.token = std::uint64_t{options.job.job} << 32 | options.job.incarnation;
  peers.wording.type_name = name_of_type;
  peers.recorded = options.recorded;
  peers.on_warning = options.on_warning;
  peers.operation_timeout = options.operation_timeout;
  return peers;
}

// All ranks learn each other's addresses.
Result<std::vector<Endpoint>> exchange(Communicator& communicator, const Endpoint& own,
                                       const CommunicatorOptions& options) {
  const auto words = std::make_shared<std::vector<std::int32_t>>(
      address_words(own, options.rank, options.world_size));
  CollectiveRequest sum{.call = Collective::kAllReduce,
                        .kind = ElementKind::kInt32,
                        .reduction = ElementReduction::kSum};
  sum.outputs = {std::as_writable_bytes(std::span(*words))};
  sum.timeout = options.join_timeout;
  sum.is_probe = true;
  sum.on_done = [words](const Status&) {};  // it goes on after an interruption
  const Status met = communicator.submit(std::move(sum)).wait_or_interrupted(options.interruption);
  if (!met) return met.error();
  return addresses_of(*words);
}

Result<std::shared_ptr<Peers>> start_peers(Communicator& communicator,
                                           const CommunicatorOptions& options) {
  std::shared_ptr<const TcpListener> listener;
  std::vector<Endpoint> addresses(1);
  if (options.world_size > 1) {
    const Result<Endpoint> own = own_address(options, communicator.in_host_memory());
    if (!own) return own.error();
    Result<TcpListener> opened = TcpListener::open(to_string(own.value()), options.ports);
    if (!opened) return opened.error();
    listener = std::make_shared<const TcpListener>(std::move(opened).value());
    Result<std::vector<Endpoint>> all = exchange(communicator, listener->address(), options);
    if (!all) return all.error();
    addresses = std::move(all).value();
  }
  Result<std::unique_ptr<Peers>> peers =
      Peers::start(std::move(listener), peer_options(options), std::move(addresses));
  if (!peers) return peers.error();
  return std::shared_ptr<Peers>(std::move(peers).value());
}

}  // namespace

class Group::Impl {
 public:
  Impl(std::unique_ptr<Communicator> communicator, std::shared_ptr<Peers> peers)
      : communicator_(std::move(communicator)), peers_(std::move(peers)) {}

  Communicator& communicator() { return *communicator_; }
  Peers& peers() { return *peers_; }
  bool takes_communicator(const CollectiveRequest& request) const;
  // A group that has failed on one transport fails on the other with its next operation there: the
  // other ranks may have given up, and would be waited for in vain.
  void share_failure();

 private:
  const std::unique_ptr<Communicator> communicator_;
  const std::shared_ptr<Peers> peers_;
};

bool Group::Impl::takes_communicator(const CollectiveRequest& request) const {
  const bool is_barrier =
      request.call == Collective::kBarrier || request.call == Collective::kMonitoredBarrier;
  if (is_barrier || is_transfer(request.call)) return false;
  if (communicator_->world_size() == 1) return false;
  if (communicator_->in_host_memory()) return true;
  return request.call == Collective::kAllReduce && has_rule(request.kind, request.reduction);
}

void Group::Impl::share_failure() {
  const auto text = [](const std::string& why) {
    const std::string prefix = "the group has failed: ";
    return why.starts_with(prefix) ? why : prefix + why;
  };
  const auto in_network = communicator_->failure();
  const auto at_peers = peers_->failure();
  if (in_network && !at_peers) peers_->stop(text(*in_network));
  if (at_peers && !in_network) communicator_->give_up(text(*at_peers));
}

Result<std::unique_ptr<Group>> Group::connect(const CommunicatorOptions& options) {
  Result<std::unique_ptr<Communicator>> communicator = Communicator::connect(options);
  if (!communicator) return communicator.error();
  Result<std::shared_ptr<Peers>> peers = start_peers(*communicator.value(), options);
  if (!peers) {
    return Error{"rank " + std::to_string(options.rank) +
                 " cannot connect with the others: " + peers.error().message};
  }
  return std::unique_ptr<Group>(
      new Group(std::make_unique<Impl>(std::move(communicator).value(), std::move(peers).value())));
}

Group::Group(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Group::~Group() = default;

Rank Group::rank() const { return impl_->communicator().rank(); }
std::size_t Group::world_size() const { return impl_->communicator().world_size(); }

Handle Group::submit(CollectiveRequest request) {
  impl_->share_failure();
  request.type = static_cast<std::uint8_t>(request.kind);
  if (impl_->takes_communicator(request)) return impl_->communicator().submit(std::move(request));
  return Handle(impl_->peers().submit(std::move(request)));
}

Handle Group::all_reduce(std::span<float> data) {
  CollectiveRequest request{.call = Collective::kAllReduce,
                            .kind = ElementKind::kFloat32,
                            .reduction = ElementReduction::kSum};
  request.outputs = {std::as_writable_bytes(data)};
  return submit(std::move(request));
}

Handle Group::broadcast(Bytes data, Rank root) {
  CollectiveRequest request{.call = Collective::kBroadcast, .root = root};
  request.outputs = {data};
  return submit(std::move(request));
}

Handle Group::barrier() { return submit({.call = Collective::kBarrier}); }

Status Group::shutdown(std::chrono::milliseconds timeout) {
  impl_->share_failure();
  const auto until = std::chrono::steady_clock::now() + timeout;
  Status result = impl_->peers().shutdown(timeout);
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
  const Status ended = impl_->communicator().shutdown(std::max(left, std::chrono::milliseconds(0)));
  return result.ok() ? ended : result;
}

void Group::abort(const std::string& why) {
  impl_->share_failure();
  impl_->peers().give_up(why);
  impl_->communicator().abort(why);
  impl_->peers().abort(why);
}

std::optional<std::string> Group::failure() const {
  const auto in_network = impl_->communicator().failure();
  return in_network ? in_network : impl_->peers().failure();
}

FailureKind Group::failure_kind() const {
  const FailureKind in_network = impl_->communicator().failure_kind();
  return in_network != FailureKind::kNone ? in_network : impl_->peers().failure_kind();
}

CounterList Group::counters() const {
  CounterList counters = impl_->communicator().counters();
  const PeerCounterList of_peers = impl_->peers().counters();
  counters.insert(counters.end(), of_peers.begin(), of_peers.end());
  return counters;
}

std::optional<WaitedForRanks> Group::waited_for() const {
  const auto in_network = impl_->communicator().waited_for();
  const auto at_peers = impl_->peers().waited_for();
  if (!in_network || !at_peers) return in_network ? in_network : at_peers;
  return at_peers->waited > in_network->waited ? at_peers : in_network;
}

std::map<Rank, Duration> Group::waits() const {
  std::map<Rank, Duration> waits = impl_->communicator().waits();
  for (const auto& [rank, waited] : impl_->peers().waits()) waits[rank] += waited;
  return waits;
}

}  // namespace atp
