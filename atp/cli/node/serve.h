#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "atp/cli/command/command.h"
#include "atp/cli/command/log.h"
#include "atp/cli/node/metrics_service.h"
#include "atp/cli/node/report.h"
#include "atp/cli/node/stats_file.h"
#include "atp/cli/node/status_service.h"
#include "atp/cli/node/stuck_log.h"
#include "atp/driver/udp/event_loop.h"

// What `atp switch` and `atp server` have in common: open a socket, say where, drive the node until
// a signal ends it, report its counters meanwhile and at the end.

namespace atp {

struct ServeOptions {
  std::string listen;
  std::uint32_t lanes = 1;   // nodes on the port of `listen` and those after it (lanes.h)
  std::uint32_t values = 0;  // most of a fragment; 0: what the MTU carries
  std::string stats_file;
  double stats_interval_s = 1;
  double stats_limit_mb = 64;
  std::string port_file;
  bool die_with_parent = false;
  bool no_status = false;
  std::vector<std::string> status_from;
  std::string metrics;  // ADDR:PORT; empty: none
};

inline constexpr std::uint32_t kMaxLanes = 64;

void add_serve_options(const Command& command, ServeOptions& options);

// The endpoint of --listen, or CommandError.
Endpoint listen_endpoint(const ServeOptions& options);
Endpoint metrics_endpoint(const ServeOptions& options);  // likewise, of --metrics
UdpSocket open_socket(const Endpoint& local);

// K: what --values asks for, else what the MTU of the interface carries.
std::uint16_t value_count(const ServeOptions& options, const Endpoint& listen);

// Ends the loop at SIGINT, SIGTERM and SIGHUP, as long as it lives, and knows which one came. One
// at a time.
class StopSignals {
 public:
  explicit StopSignals(Waker& waker);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // "SIGTERM from process 4711".
  static std::string reason();
};

// Counters to the log and to the file, each interval.
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

// Says of a host, once, that the path to it carries only smaller packets than were sent.
class NarrowPathLog {
 public:
  explicit NarrowPathLog(std::string_view role) : role_(role) {}
  void add(const Endpoint& peer, std::size_t mtu);

 private:
  static constexpr std::size_t kMaxHosts = 64;  // more lines would say nothing new

  std::string_view role_;
  std::vector<decltype(Endpoint::address)> reported_;
};

// "atp switch listening on 127.0.0.1:5501", and into --port-file.
void announce(std::string_view role, const UdpSocket& socket, const ServeOptions& options);
// What --port-file asks for. Throws CommandError.
void write_port_file(const ServeOptions& options, const std::string& address);
void obey_parent(const ServeOptions& options);
// Answers `atp status`; null if that is not wanted, or not possible, which is no reason to stop.
std::unique_ptr<StatusService> start_status(const UdpSocket& socket, const ServeOptions& options,
                                            Waker& waker);

// The page that --metrics asks for, and says where it is; null if none is wanted. Throws
// CommandError, as whoever asks for it relies on it.
std::unique_ptr<MetricsService> start_metrics(const ServeOptions& options, Waker& waker);

// Drives `node` until it is told to stop. `gauges(snapshot)` adds what the node alone knows.
template <class Node, class Gauges>
void serve(std::string_view role, const UdpSocket& socket, Node& node, const ServeOptions& options,
           std::vector<WatchedCounter> watched, Gauges&& gauges) {
  obey_parent(options);
  const auto waker = Waker::create();
  if (!waker) throw std::runtime_error(waker.error().message);
  const StopSignals stop_signals(*waker.value());
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
  NarrowPathLog narrow_paths(role);
  StuckLog stuck;
  Instant look_at = clock_now();
  Driven<Node> driven(
      node,
      [&](Instant now) {
        if (reporter.due(now)) reporter.report(now, snapshot());
        const auto answer = [&](auto& service) {
          if (!service || !service->is_asked()) return;
          service->answer(status_text_of(role, to_string(socket.local()), node, now, snapshot()));
        };
        answer(status);
        answer(metrics);
        if (now >= look_at) {
          look_at = now + StuckLog::kBetweenLooks;
          for (const std::string& line : stuck.lines(stuck_ranks_of(node, now), now)) {
            log_warning("{}", line);
          }
        }
        return std::min(reporter.next(), look_at);
      },
      [&](Instant, const Endpoint& peer, std::size_t mtu) { narrow_paths.add(peer, mtu); });
  EventLoop loop(socket, driven, *waker.value());
  driver = &loop;
  announce(role, socket, options);
  loop.run();
  reporter.report(clock_now(), snapshot());
  log_info("stopped by {}", StopSignals::reason());
}

}  // namespace atp
