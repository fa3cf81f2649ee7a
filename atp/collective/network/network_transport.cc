// Configures a transport's worker, and runs the thread that drives it and takes the callers'
// commands.
#include "atp/collective/network/network_transport.h"

#include <algorithm>
#include <utility>

#include "atp/base/system_random.h"
#include "atp/base/time.h"
#include "atp/collective/network/fragment_size.h"
#include "atp/driver/udp/address.h"
#include "atp/driver/udp/event_loop.h"

namespace atp {
namespace {

using SteadyClock = std::chrono::steady_clock;

// How long an aborting rank waits for the acknowledgement of its LEAVE. The others learn of it from
// the first LEAVE that arrives; the acknowledgement only ends the repeats.
constexpr std::chrono::milliseconds kHastyLeave{500};

// One stream for values, and unless the scale is fixed, an express stream for exponents and small
// operations.
std::uint16_t streams_of_a_transport(NumberFormat format) {
  return format == NumberFormat::kFixed ? 1 : 2;
}

WorkerConfig worker_config(const NetworkTransportOptions& own, std::uint16_t value_count) {
  const CommunicatorOptions& options = own.communicator;
  WorkerConfig config;
  config.job = options.job;
  config.rank = options.rank;
  config.world_size = static_cast<std::uint16_t>(options.world_size);
  config.nonce = own.nonce;
  config.stream_count = streams_of_a_transport(options.number_format);
  config.first_stream = static_cast<std::uint16_t>(config.stream_count * own.shard);
  config.max_value_count = value_count;
  config.number_format = options.number_format;
  config.overflow = options.overflow;
  config.congestion = options.congestion;
  // The others are for comparisons, in which nothing but their own window bounds what is in flight.
  config.room = options.congestion == CongestionPolicy::kAimd;
  config.plain_repeats = config.tolerance = options.congestion != CongestionPolicy::kPaper;
  config.servers = static_cast<std::uint16_t>(options.more_routes.size() + 1);
  config.join_timeout = left_to_join(options);
  config.has_key = options.key.has_value();
  config.seed = random_seed();
  for (const Endpoint& hop : options.route) config.route.push_back(hop);
  return config;
}

// With a colocated server in each rank, the routes are in the order of the ranks.
std::optional<Rank> server_rank(const NetworkTransportOptions& own) {
  const CommunicatorOptions& options = own.communicator;
  const bool one_each = options.more_routes.size() + 1 == options.world_size;
  if (!options.colocated_server || !one_each) return std::nullopt;
  return static_cast<Rank>(own.shard);
}

Rank own_name(const CommunicatorOptions& options) {
  return options.names.empty() ? options.rank : options.names[options.rank];
}

FailureContext failure_context(const NetworkTransportOptions& own) {
  const CommunicatorOptions& options = own.communicator;
  return {.rank = own_name(options),
          .world_size = options.world_size,
          .route = options.route,
          .names = options.names,
          .server_rank = server_rank(own),
          .tag_bytes = options.tag_bytes(),
          .join_timeout = options.join_timeout,
          .operation_timeout = options.operation_timeout};
}

}  // namespace

std::chrono::milliseconds left_to_join(const CommunicatorOptions& options) {
  return std::max(left_until(*options.join_until), std::min(options.join_timeout, kToBeTold));
}

NetworkTransport::NetworkTransport(const NetworkTransportOptions& options,
                                   std::uint16_t value_count, UdpSocket socket,
                                   std::unique_ptr<Waker> waker)
    : TransportWithThread(std::move(waker)),
      options_(options.communicator),
      fail_together_(options.fail_together),
      socket_(std::move(socket)),
      closed_in_child_({socket_.fd()}),
      keys_(options.communicator.key
                ? std::optional<Keyring>(std::in_place, *options.communicator.key)
                : std::nullopt),
      will_(worker_config(options, value_count), socket_.local().port, options.communicator.key),
      session_(worker_config(options, value_count), failure_context(options),
               [this](const std::string& text) { options_.warn(text); }) {
  thread_.record_to(options_.recorded);
  session_.record_to(options_.recorded);
}

Result<std::shared_ptr<NetworkTransport>> NetworkTransport::open(
    const NetworkTransportOptions& options) {
  const CommunicatorOptions& communicator = options.communicator;
  const Result<std::uint16_t> value_count = choose_value_count(communicator);
  if (!value_count) return value_count.error();
  Result<UdpSocket> socket =
      UdpSocket::open(any_address_for(communicator.route), communicator.ports);
  if (!socket) return socket.error();
  Result<std::unique_ptr<Waker>> waker = Waker::create();
  if (!waker) return waker.error();
  auto transport = std::make_shared<NetworkTransport>(
      options, value_count.value(), std::move(socket).value(), std::move(waker).value());
  const Status started = transport->thread_.start("atp-worker", [transport] { transport->run(); });
  if (!started) return started.error();
  options.fail_together->add([weak = std::weak_ptr(transport)](const std::string& why) {
    if (const auto sibling = weak.lock()) sibling->thread_.stop(why);
  });
  return transport;
}

void NetworkTransport::run() {
  using Node = Driven<Worker, Tensors>;
  const EventLoop<Node>* driver = nullptr;
  Node node(
      session_.worker(), session_.tensors(),
      [&](Instant now) {
        now_ = now;
        while (carry_out_commands(now, driver->counters())) continue;
        const auto stop_by = thread_.stop_by();
        return stop_by ? Instant(stop_by->time_since_epoch()) : kNever;
      },
      [this](Instant now, const Endpoint& whom, std::size_t mtu) {
        session_.handle_too_big(now, whom, mtu);
      });
  EventLoop<Node> loop(socket_, node, thread_.waker(), keys_ ? &*keys_ : nullptr);
  driver = &loop;
  now_ = clock_now();
  session_.worker().start(now_);
  for (bool ended = false; !ended;) {
    guarded([&] {
      loop.run();
      ended = true;
    });
  }
}

template <class Step>
void NetworkTransport::guarded(const Step& step) {
  thread_.guarded("rank " + std::to_string(own_name(options_)), step,
                  [this](const std::string& why) { session_.give_up(now_, why); });
}

bool NetworkTransport::carry_out_commands(Instant now, const UdpCounters& udp_counters) {
  auto commands = thread_.take();
  for (auto& operation : commands.submitted) {
    guarded([&] { session_.submit(std::move(operation)); });
  }
  if (commands.leave) {
    session_.leave(now, *commands.leave, *commands.leave == kShutDown);
  }
  if (commands.stop) session_.stop(*commands.stop);
  session_.on_round(now);
  if (session_.phase() == SessionPhase::kFailed) fail_together_->fail(*session_.failure());
  const Worker& worker = session_.worker();
  return thread_.publish({.pending = session_.pending(),
                          .left = session_.has_left(),
                          .failure = session_.failure(),
                          .failure_kind = session_.failure_kind(),
                          .report = {.phase = session_.phase(),
                                     .value_count = worker.value_count(),
                                     .worker_counters = worker.counters(),
                                     .udp_counters = udp_counters,
                                     .waited_for = session_.waited_for(now),
                                     .waits = session_.waits()}},
                         session_.take_ended());
}

std::map<Rank, Duration> NetworkTransport::waits() const {
  const auto waits = thread_.report().waits;
  if (waits == nullptr) return {};
  if (options_.names.empty()) return *waits;
  std::map<Rank, Duration> named;
  for (const auto& [rank, waited] : *waits) named[options_.names[rank]] = waited;
  return named;
}

Status NetworkTransport::wait_until_joined() {
  const auto knows = [](const NetworkTransportReport& report) {
    return report.phase != SessionPhase::kJoining;
  };
  if (!thread_.wait_until(knows, SteadyClock::time_point::max(), options_.interruption)) {
    return Error{*why_interrupted(options_.interruption)};
  }
  if (thread_.report().phase == SessionPhase::kJoined) return ok_status();
  return Error{"rank " + std::to_string(own_name(options_)) +
               " cannot join the job: " + failure().value_or("it was asked to leave")};
}

Status NetworkTransport::shutdown(SteadyClock::time_point until,
                                  std::chrono::milliseconds timeout) {
  return thread_.shutdown(until, timeout, kHastyLeave);
}

void NetworkTransport::abort(const std::string& why) { thread_.close_in_haste(why, kHastyLeave); }

CounterList NetworkTransport::counters() const {
  CounterList list;
  const NetworkTransportReport report = thread_.report();
  const auto add = [&](std::string_view name, std::uint64_t value) {
    list.emplace_back(std::string(name), value);
  };
  report.worker_counters.for_each(add);
  report.udp_counters.for_each(add);
  return list;
}

}  // namespace atp
