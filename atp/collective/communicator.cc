// Connects a rank through memory, transports and a colocated server, and ends all of them together.
#include "atp/collective/communicator.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <utility>

#include "atp/base/system_random.h"
#include "atp/base/text.h"
#include "atp/collective/base/hosts.h"
#include "atp/collective/base/pending_operation.h"
#include "atp/collective/dispatcher.h"
#include "atp/collective/hierarchy.h"
#include "atp/collective/network/colocated_server.h"
#include "atp/collective/network/network_transport.h"
#include "atp/collective/network/shards.h"

namespace atp {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr const char* kForked =
    "this process was forked after the communicator was created and has no part in the job: create "
    "a new communicator";

// How long the server of an aborting rank waits for the others, which may leave as well, counted
// from when the rank was first asked to leave.
constexpr std::chrono::milliseconds kHastyEnd{1000};

// A server checks the tags of all the tenant's jobs that come to its address.
Result<std::optional<Tenant>> key_of_colocated_server(const CommunicatorOptions& options) {
  if (!options.key) return std::optional<Tenant>();
  if (const Tenant* tenant = std::get_if<Tenant>(&*options.key)) return std::optional(*tenant);
  return Error{"the colocated server of rank " + std::to_string(options.rank) +
               " needs the tenant's key, and the rank has only that of its job: set ATP_KEY_FILE "
               "on every rank with a colocated server (ATP_COLOCATED_SERVER)"};
}

Status check(const CommunicatorOptions& options) {
  if (options.world_size < 1 || options.world_size > kMaxRanks) {
    return Error{"a job has 1 to " + with_commas(kMaxRanks) + " ranks, not " +
                 with_commas(options.world_size)};
  }
  if (options.rank >= options.world_size) {
    return Error{"rank " + std::to_string(options.rank) + " is not one of the job's ranks 0 to " +
                 std::to_string(options.world_size - 1)};
  }
  if (options.colocated_server && options.colocated_server->port == 0) {
    return Error{"the server in this process needs a port that the other ranks know, but found 0"};
  }
  Status format = check_format(options.number_format, options.world_size);
  if (!format) return format;
  Status hosts = Hosts::check(options.host_of, options.world_size);
  if (!hosts) return hosts;
  if (options.colocated_server && sums_on_hosts(options)) {
    return Error{
        "a rank with a colocated server cannot sum on its host first: turn off either that "
        "server (ATP_COLOCATED_SERVER, colocated_server) or sums within hosts (ATP_HIERARCHY, "
        "host_of)"};
  }
  for (const std::vector<Endpoint>& route : all_routes(options)) {
    if (route.empty() && options.host_memory) continue;
    if (!route.empty() && route.size() <= Route::kMaxHops) continue;
    return Error{"expected a route of at most " + std::to_string(Route::kMaxHops - 1) +
                 " switches and then the server, but found " + std::to_string(route.size()) +
                 " hops"};
  }
  return ok_status();
}

CommunicatorOptions begun(CommunicatorOptions options) {
  if (!options.join_until) options.join_until = deadline_in(options.join_timeout);
  if (options.recorded != nullptr) return options;
  RecordedGroupInfo group{
      .name = "job " + std::to_string(options.job.job),
      .job = std::to_string(options.job.job) + "/" + std::to_string(options.job.incarnation),
      .rank = options.rank};
  for (std::size_t rank = 0; rank < options.world_size; ++rank) group.ranks.push_back(rank);
  options.recorded = RecordedGroup::open(std::move(group));
  options.records_operations = true;
  return options;
}

}  // namespace

class Communicator::Impl {
 public:
  Impl(const CommunicatorOptions& options, std::shared_ptr<ColocatedServer> server,
       std::vector<std::shared_ptr<Transport>> transports)
      : options_(options),
        server_(std::move(server)),
        dispatcher_(std::make_shared<Dispatcher>(options, std::move(transports))) {
    if (options.records_operations) dispatcher_->record_to(options.recorded);
  }

  Status wait_until_joined();
  Status shutdown(std::chrono::milliseconds timeout);
  void give_up(const std::string& why);
  void abort(const std::string& why);
  void close(const std::string& why);

  const CommunicatorOptions& options() const { return options_; }
  const std::shared_ptr<Dispatcher>& dispatcher() const { return dispatcher_; }
  // Each is shared with its thread.
  const std::vector<std::shared_ptr<Transport>>& transports() const {
    return dispatcher_->transports();
  }
  ColocatedServer* server() const { return server_.get(); }
  bool forked() const { return getpid() != owner_; }

 private:
  bool on_own_thread() const;
  void wait_until_idle(SteadyClock::time_point until);

  const CommunicatorOptions options_;
  const pid_t owner_ = getpid();
  std::shared_ptr<ColocatedServer> server_;  // null: none
  std::shared_ptr<Dispatcher> dispatcher_;
  std::atomic<SteadyClock::time_point> gave_up_{};  // when it was first asked to
};

Status Communicator::Impl::wait_until_joined() {
  for (const auto& transport : transports()) {
    const Status joined = transport->wait_until_joined();
    if (!joined) return joined;
    const bool has_fragments = transport->value_count() > 0;
    if (!has_fragments || transport->value_count() >= options_.values_per_fragment) continue;
    options_.warn("asked for " + with_commas(options_.values_per_fragment) +
                  " values per fragment, but a switch or another rank carries no more than " +
                  with_commas(transport->value_count()));
  }
  return ok_status();
}

bool Communicator::Impl::on_own_thread() const {
  return std::any_of(transports().begin(), transports().end(),
                     [](const auto& transport) { return transport->on_own_thread(); });
}

Status Communicator::Impl::shutdown(std::chrono::milliseconds timeout) {
  if (on_own_thread()) return Error{"shutdown() would wait for itself in a callback"};
  const auto until = deadline_in(timeout);
  Status result = ok_status();
  wait_until_idle(until);
  if (const auto failure = dispatcher_->failure()) give_up(*failure);
  for (const auto& transport : transports()) {
    const Status ended = transport->shutdown(until, timeout);
    if (result.ok()) result = ended;
  }
  // Other ranks may still need an answer from this rank's server, but not after a failure.
  if (server_ && result.ok()) {
    const auto say = [this](const std::string& text) { options_.warn(text); };
    static_cast<void>(server_->wait_until_left(options_.job, until, say));
  }
  return result;
}

// Callbacks of the last operations may submit further ones, to any transport.
void Communicator::Impl::wait_until_idle(SteadyClock::time_point until) {
  std::uint64_t seen = 0;
  do {
    seen = dispatcher_->submitted();
    dispatcher_->wait_until_sent(until);
    for (const auto& transport : transports()) {
      if (!transport->wait_until_idle(until)) return;
    }
  } while (dispatcher_->submitted() != seen);
}

void Communicator::Impl::give_up(const std::string& why) {
  SteadyClock::time_point never{};
  gave_up_.compare_exchange_strong(never, SteadyClock::now());
  for (const auto& transport : transports()) transport->give_up(why);
}

// A callback must not wait for another transport, whose own callback may be waiting for this
// transport.
void Communicator::Impl::abort(const std::string& why) {
  on_own_thread() ? give_up(why) : close(why);
}

void Communicator::Impl::close(const std::string& why) {
  give_up(why);  // all at once
  for (const auto& transport : transports()) transport->abort(why);
  if (server_ && !on_own_thread()) {
    static_cast<void>(server_->wait_until_left(options_.job, gave_up_.load() + kHastyEnd, nullptr));
  }
}

Result<std::unique_ptr<Communicator>> Communicator::connect(const CommunicatorOptions& asked) {
  const Status valid = check(asked);
  if (!valid) return valid.error();
  const CommunicatorOptions options = begun(asked);
  Result<MemoryRendezvous> memory = meet_in_memory(options);
  if (!memory)
    return Error{"rank " + std::to_string(options.rank) +
                 " cannot join the job: " + memory.error().message};
  if (memory.value().transport != nullptr) {
    return std::unique_ptr<Communicator>(new Communicator(std::make_unique<Impl>(
        options, nullptr, std::vector{std::move(memory).value().transport})));
  }
  std::shared_ptr<ColocatedServer> server;
  if (options.colocated_server) {
    const Result<std::optional<Tenant>> key = key_of_colocated_server(options);
    if (!key) return key.error();
    auto started =
        ColocatedServer::at(*options.colocated_server, options.values_per_fragment, key.value());
    if (!started) return started.error();
    server = std::move(started).value();
  }
  const std::uint64_t nonce = random_seed();
  const auto fail_together = std::make_shared<FailTogether>();
  std::vector<std::shared_ptr<Transport>> transports;
  for (const std::vector<Endpoint>& route : all_routes(options)) {
    NetworkTransportOptions transport{.communicator = options,
                                      .shard = static_cast<std::uint16_t>(transports.size()),
                                      .nonce = nonce,
                                      .fail_together = fail_together};
    transport.communicator.route = route;
    transport.communicator.job = memory.value().job;
    Result<std::shared_ptr<NetworkTransport>> opened = NetworkTransport::open(transport);
    if (!opened) {
      for (const auto& earlier : transports) earlier->give_up(opened.error().message);
      for (const auto& earlier : transports) earlier->abort(opened.error().message);
      return opened.error();
    }
    transports.push_back(std::move(opened).value());
  }
  // From here on the destructor stops the threads.
  std::unique_ptr<Communicator> communicator(
      new Communicator(std::make_unique<Impl>(options, std::move(server), std::move(transports))));
  const Status joined = communicator->impl_->wait_until_joined();
  if (!joined) return joined.error();
  return communicator;
}

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Communicator::~Communicator() {
  if (impl_->forked()) {
    // A forked child must not join, close or free anything. The parent's threads do not exist here,
    // but the references that they hold do.
    [[maybe_unused]] const Impl* left_alone = impl_.release();
    return;
  }
  impl_->close("the communicator was destroyed");
}

Rank Communicator::rank() const { return impl_->options().rank; }
std::size_t Communicator::world_size() const { return impl_->options().world_size; }

std::size_t Communicator::values_per_fragment() const {
  std::size_t least = ATP_VALUES_MAX;
  for (std::size_t i = 0; i < impl_->dispatcher()->network_transports(); ++i) {
    least = std::min(least, impl_->transports()[i]->value_count());
  }
  return least;
}

Handle Communicator::submit(CollectiveRequest request) {
  Handle handle;
  if (impl_->forked()) {
    const OperationName name{.what = to_string(request.call)};
    handle.parts_ = {std::make_shared<PendingOperation>(name, std::move(request), BlockLayout(),
                                                        impl_->options().number_format)};
    handle.parts_[0]->finish(Error{kForked});
  } else {
    // Keep it alive: a callback may destroy the communicator.
    const std::shared_ptr<Dispatcher> dispatcher = impl_->dispatcher();
    handle.parts_ = dispatcher->submit(std::move(request));
  }
  return handle;
}

Handle Communicator::all_reduce(Bytes tensor, ElementKind kind, CollectiveRequest how) {
  how.call = Collective::kAllReduce;
  how.kind = kind;
  if (how.reduction == ElementReduction::kNone) how.reduction = ElementReduction::kSum;
  how.outputs.assign(1, tensor);
  return submit(std::move(how));
}

Handle Communicator::all_reduce(std::span<float> data, CollectiveRequest how) {
  return all_reduce(std::as_writable_bytes(data), ElementKind::kFloat32, std::move(how));
}

bool Communicator::in_host_memory() const { return impl_->dispatcher()->in_host_memory(); }

std::optional<DigestReading> Communicator::digest() const {
  ResultDigest* digest = impl_->forked() ? nullptr : impl_->dispatcher()->digest();
  if (digest == nullptr) return std::nullopt;
  return digest->read();
}

std::optional<DigestReading> Communicator::restart_digest() {
  ResultDigest* digest = impl_->forked() ? nullptr : impl_->dispatcher()->digest();
  if (digest == nullptr) return std::nullopt;
  return digest->restart();
}

Status Communicator::shutdown(std::chrono::milliseconds timeout) {
  if (impl_->forked()) return Error{kForked};
  return impl_->shutdown(timeout);
}

void Communicator::abort(const std::string& why) {
  if (!impl_->forked()) impl_->abort(why);
}

void Communicator::give_up(const std::string& why) {
  if (!impl_->forked()) impl_->give_up(why);
}

std::optional<std::string> Communicator::failure() const {
  return impl_->forked() ? kForked : impl_->dispatcher()->failure();
}

FailureKind Communicator::failure_kind() const {
  return impl_->forked() ? FailureKind::kNone : impl_->dispatcher()->failure_kind();
}

Status Communicator::add_ring(std::shared_ptr<Transport> ring, const CostModels& figures,
                              std::uint64_t judged_every) {
  if (impl_->forked()) return Error{kForked};
  if (in_host_memory()) {
    return Error{"a communicator in the host's memory cannot have a ring as well"};
  }
  if (impl_->options().number_format == NumberFormat::kFixed) {
    return Error{
        "a ring does not support the fixed scale: use blocks of int32 or int16, or exact sums"};
  }
  return impl_->dispatcher()->add_ring(std::move(ring), figures, judged_every);
}

std::optional<TunerCounts> Communicator::tuner_counts() const {
  return impl_->forked() ? std::nullopt : impl_->dispatcher()->tuner_counts();
}

std::optional<WaitedForRanks> Communicator::waited_for() const {
  std::optional<WaitedForRanks> longest;
  if (impl_->forked()) return longest;
  for (const auto& transport : impl_->transports()) {
    auto waited = transport->waited_for();
    if (waited && (!longest || longest->waited < waited->waited)) longest = std::move(waited);
  }
  return longest;
}

// Lanes wait at the same time, for different servers.
std::map<Rank, Duration> Communicator::waits() const {
  std::map<Rank, Duration> longest;
  if (impl_->forked()) return longest;
  for (const auto& transport : impl_->transports()) {
    for (const auto& [rank, waited] : transport->waits()) {
      longest[rank] = std::max(longest[rank], waited);
    }
  }
  return longest;
}

CounterList Communicator::counters() const {
  if (impl_->forked()) return {};
  CounterList sums = impl_->transports().front()->counters();
  const std::size_t of_network = impl_->dispatcher()->network_transports();
  for (std::size_t i = 1; i < of_network; ++i) {
    const CounterList more = impl_->transports()[i]->counters();
    for (std::size_t c = 0; c < sums.size(); ++c) sums[c].second += more[c].second;
  }
  for (std::size_t i = of_network; i < impl_->transports().size(); ++i) {
    const CounterList of_ring = impl_->transports()[i]->counters();
    sums.insert(sums.end(), of_ring.begin(), of_ring.end());
  }
  if (ColocatedServer* server = impl_->server()) {
    const CounterList of_server = server->counters();
    sums.insert(sums.end(), of_server.begin(), of_server.end());
  }
  return sums;
}

Status Handle::wait() {
  if (of_peers_) return of_peers_->wait();
  if (parts_.empty()) return Error{"this handle belongs to no operation"};
  Status result = ok_status();
  for (const auto& part : parts_) {
    const Status ended = part->wait();
    if (result.ok()) result = ended;
  }
  return result;
}

Status Handle::wait_or_interrupted(const MaybeInterruption& interruption) {
  if (of_peers_) return of_peers_->wait_or_interrupted(interruption);
  for (const auto& part : parts_) {
    if (!part->wait_or_interrupted(interruption)) return Error{*why_interrupted(interruption)};
  }
  return wait();
}

bool Handle::done() const {
  if (of_peers_) return of_peers_->done();
  return std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->done(); });
}

}  // namespace atp
