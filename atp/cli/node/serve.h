#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "atp/cli/command/command.h"
#include "atp/cli/command/log.h"
#include "atp/cli/node/drain.h"
#include "atp/cli/node/metrics_service.h"
#include "atp/cli/node/neighbour_log.h"
#include "atp/cli/node/node_keys.h"
#include "atp/cli/node/node_weights.h"
#include "atp/cli/node/report.h"
#include "atp/cli/node/stats_file.h"
#include "atp/cli/node/status_service.h"
#include "atp/cli/status/episodes.h"
#include "atp/cli/status/job_findings.h"
#include "atp/driver/udp/event_loop.h"

// What `atp switch` and `atp server` share: they open a socket, announce its address, drive the
// node until a signal ends it, and report its counters.

namespace atp {

struct ServeOptions {
  std::string listen;
  std::uint32_t lanes = 1;   // nodes on consecutive ports, from that of `listen` (lanes.h)
  std::uint32_t values = 0;  // maximum per fragment; 0: what fits the MTU
  std::string stats_file;
  double stats_interval_s = 1;
  double stats_limit_mb = 64;
  std::string port_file;
  bool die_with_parent = false;
  bool no_status = false;
  std::vector<std::string> status_from;
  std::vector<std::string> drain_from;
  std::string metrics;  // ADDR:PORT; empty: none
  std::vector<std::string> host_names;
  std::string keys;  // the file; empty: packets need no tag
};

inline constexpr std::uint32_t kMaxLanes = 64;

void add_serve_options(const Command& command, ServeOptions& options);

// The endpoint of --listen, or CommandError.
Endpoint listen_endpoint(const ServeOptions& options);
Endpoint metrics_endpoint(const ServeOptions& options);  // the same for --metrics
UdpSocket open_socket(const Endpoint& local);

// K: the value of --values, else what fits the interface's MTU.
std::uint16_t value_count(const ServeOptions& options, const Endpoint& listen);

// While it exists, ends the loop on SIGINT, SIGTERM and SIGHUP and records which one arrived. For a
// `service`, a SIGHUP that a process has sent only wakes the loop: it asks for a reload. Only one
// may exist.
class StopSignals {
 public:
  explicit StopSignals(Waker& waker, bool service = false);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  static bool has_come();
  // Whether SIGHUP has come since the last call.
  static bool take_reload();
  // "SIGTERM from process 4711".
  static std::string reason();
};

// Writes the counters to the log and to the file at each interval.
class Reporter {
 public:
  Reporter(std::string_view role, const ServeOptions& options, std::vector<WatchedCounter> watched);
  bool due(Instant now) const { return now >= next_; }
  void report(Instant now, const CounterSnapshot& counters);
  Instant next() const { return next_; }

 private:
  std::string_view role_;
  Duration interval_;
  Instant next_;
  std::optional<StatsFile> file_;
  CounterWatch watch_;
};

// Warns once per host whose path MTU is smaller than the packets sent.
class NarrowPathLog {
 public:
  explicit NarrowPathLog(std::string_view role) : role_(role) {}
  void add(const Endpoint& peer, std::size_t mtu);

 private:
  static constexpr std::size_t kMaxHosts = 64;  // further warnings would not help

  std::string_view role_;
  std::vector<decltype(Endpoint::address)> reported_;
};

// Prints "atp switch listening on 127.0.0.1:5501", and writes --port-file.
void announce(std::string_view role, const UdpSocket& socket, const ServeOptions& options);
// Writes --port-file. Throws CommandError.
void write_port_file(const ServeOptions& options, const std::string& address);
// Reads the keys and the weights again; without any, only says that there is nothing to read.
void reload(NodeKeys* keys, NodeWeights* weights);
void obey_parent(const ServeOptions& options);
// Starts answering `atp status`. Null if that is not wanted or not possible; the node runs anyway.
std::unique_ptr<StatusService> start_status(const UdpSocket& socket, const ServeOptions& options,
                                            Waker& waker);

// Starts serving --metrics and logs the address; null if it is not given. Throws CommandError on
// failure, because a user who sets --metrics relies on it.
std::unique_ptr<MetricsService> start_metrics(const ServeOptions& options, Waker& waker);

enum class ServeEnd { kSignal, kDrained };

// Runs the loop until it ends. If the system refuses memory, that costs a packet, as a loss would,
// or a line of the log, but not the jobs that the node serves.
void run_without_fail(const std::function<void()>& loop);

// What a node logs about its jobs by itself, and the course of a drain: checked a few times per
// second.
template <class Node>
class JobWatch {
 public:
  JobWatch(Node& node, const Keyring* keys) : node_(node), keys_(keys) {}

  void start_drain(Instant now) {
    node_.drain();
    next_look_ = now;
  }

  // Looks if it is time.
  void poll(Instant now) {
    if (now < next_look_) return;
    next_look_ = now + kBetweenLooks;
    const std::vector<JobStatus> jobs = jobs_of(node_, now, keys_);
    log_findings(jobs, now);
    if (!node_.draining()) return;
    if (const auto line = drain_.look(now, jobs_in(jobs))) log_info("{}", *line);
    drained_ = drain_.is_over(now);
  }

  // What has happened since the last look, when there will be no other.
  void end(Instant now) { log_findings(jobs_of(node_, now, keys_), now); }

  Instant next_look() const { return next_look_; }
  bool drained() const { return drained_; }

 private:
  static constexpr Duration kBetweenLooks = std::chrono::milliseconds(250);

  void log_findings(const std::vector<JobStatus>& jobs, Instant now) {
    const double now_s = std::chrono::duration<double>(now.time_since_epoch()).count();
    std::vector<FailedJob> failures;
    if constexpr (requires { node_.failures(); }) failures = failures_of(node_, now, keys_);
    std::vector<Finding> findings = findings_of(jobs, failures, now_s);
    for (Finding& silent : silent_parents_of(node_, now, JobNames(keys_))) {
      findings.push_back(std::move(silent));
    }
    for (const Finding& news : episodes_.take(std::move(findings), now_s)) {
      log(news.severity == Severity::kNote ? LogLevel::kInfo : LogLevel::kWarning,
          log_line(news, now_s));
    }
  }

  Node& node_;
  const Keyring* keys_;
  Episodes episodes_;
  Drain drain_;
  bool drained_ = false;
  Instant next_look_ = clock_now();
};

// Drives `node` until a signal stops it, or until it has drained. `keys` and `weights` may be null.
// `gauges(snapshot)` adds the node's own figures.
template <class Node, class Gauges>
ServeEnd serve(std::string_view role, const UdpSocket& socket, Node& node,
               const ServeOptions& options, NodeKeys* keys, NodeWeights* weights,
               std::vector<WatchedCounter> watched, Gauges&& gauges) {
  obey_parent(options);
  const auto waker = Waker::create();
  if (!waker) throw std::runtime_error(waker.error().message);
  const StopSignals stop_signals(*waker.value(), true);
  Keyring* const ring = keys == nullptr ? nullptr : &keys->ring();
  const auto status = start_status(socket, options, *waker.value());
  const auto metrics = start_metrics(options, *waker.value());
  Reporter reporter(role, options, std::move(watched));

  const EventLoop<Driven<Node>>* driver = nullptr;
  const auto snapshot = [&] {
    CounterSnapshot counters;
    const auto add = [&](std::string_view name, std::uint64_t value) {
      counters.emplace_back(name, value);
    };
    node.counters().for_each(add);
    gauges(counters);
    driver->counters().for_each(add);
    add("udp_receive_drops", socket.receive_drops());
    add("outbox_lost", driver->packets_lost_in_outbox());
    return counters;
  };
  const auto answer = [&](auto& service, Instant now) {
    service.answer(status_of(role, to_string(socket.local()), node, now, snapshot(), ring));
  };
  JobWatch<Node> watch(node, ring);
  UnreachableLog unreachable;
  const auto between_packets = [&](Instant now) {
    if (StopSignals::take_reload()) reload(keys, weights);
    if (reporter.due(now)) {
      reporter.report(now, snapshot());
      for (const std::string& line : unreachable.lines()) log_warning("{}", line);
    }
    // In this order, because a client's drain comes before its question: the answer then has it.
    const bool is_status_asked = status && status->is_asked();
    if (status && status->is_drain_asked() && !node.draining()) watch.start_drain(now);
    if (is_status_asked) answer(*status, now);
    if (metrics && metrics->is_asked()) answer(*metrics, now);
    watch.poll(now);
    if (watch.drained()) waker.value()->stop();
    return std::min(reporter.next(), watch.next_look());
  };
  NarrowPathLog narrow_paths(role);
  Driven<Node> driven(node, between_packets, [&](Instant, const Endpoint& peer, std::size_t mtu) {
    narrow_paths.add(peer, mtu);
  });
  driven.on_unreachable([&](const Endpoint& whom) { unreachable.add(whom); });
  KeyRefusalLog key_refusals;
  driven.on_refused([&](Instant now, const Endpoint& from, std::span<const std::uint8_t> join,
                        KeyProblem problem) {
    key_refusals.add(now, from, join, problem,
                     [&node](std::uint32_t job) { return node.knows_job(job); });
  });
  EventLoop loop(socket, driven, *waker.value(), ring);
  driver = &loop;
  announce(role, socket, options);
  run_without_fail([&] { loop.run(); });
  watch.end(clock_now());
  reporter.report(clock_now(), snapshot());
  const bool drained = watch.drained() && !StopSignals::has_come();
  log_info("{}", drained ? "drained: ended" : "stopped by " + StopSignals::reason());
  return drained ? ServeEnd::kDrained : ServeEnd::kSignal;
}

}  // namespace atp
