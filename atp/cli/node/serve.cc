#include "atp/cli/node/serve.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <new>

#include "atp/cli/command/command.h"
#include "atp/cli/command/log.h"
#include "atp/cli/node/prefix.h"
#include "atp/cli/status/status_json.h"
#include "atp/driver/http/own_host.h"
#include "atp/driver/tcp/tcp_socket.h"
#include "atp/driver/udp/address.h"
#include "atp/driver/udp/path_mtu.h"
#include "atp/wire/host_text.h"
#include "atp/wire/packet.h"

namespace atp {
namespace {

std::atomic<Waker*> stop_waker{nullptr};

// The first signal, and the process that sent it; 0: the kernel.
std::atomic<int> stop_signal{0};
std::atomic<pid_t> stop_sender{0};

// Whether SIGHUP asks for a reload, and whether it has come.
std::atomic<bool> hangup_reloads{false};
std::atomic<bool> reload_asked{false};

void stop_loop(int signal, siginfo_t* info, void*) {
  // From the kernel it means that the terminal is gone.
  if (signal == SIGHUP && hangup_reloads && info->si_code <= 0) {
    reload_asked = true;
    if (Waker* waker = stop_waker.load()) waker->wake();
    return;
  }
  int none = 0;
  if (stop_signal.compare_exchange_strong(none, signal)) {
    stop_sender = info->si_code == SI_USER ? info->si_pid : 0;
  }
  if (Waker* waker = stop_waker.load()) waker->stop();
}

void set_action(const struct sigaction& action) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

}  // namespace

void add_serve_options(const Command& command, ServeOptions& options) {
  command
      .add_option("--listen", options.listen,
                  "UDP address to listen on; port 0 picks a free port, 0.0.0.0 or [::] means all "
                  "addresses of this host")
      .type_name("ADDR:PORT")
      .show_default();
  command
      .add_option(
          "--lanes", options.lanes,
          "Number of nodes, one per core, on consecutive ports starting with that of --listen; "
          "ranks address them as HOST:FIRST-LAST")
      .type_name("N")
      .in_range(1u, kMaxLanes)
      .show_default();
  command
      .add_option("--values", options.values,
                  "Maximum values per fragment (default: what fits the interface's MTU)")
      .type_name("K")
      .in_range(1, ATP_VALUES_MAX);
  command.add_option("--stats", options.stats_file, "Write counters to this file, as JSON lines")
      .type_name("FILE");
  command
      .add_option("--stats-interval", options.stats_interval_s, "Seconds between lines of counters")
      .type_name("SEC")
      .number_between(0.01, 86400)
      .show_default();
  command
      .add_option(
          "--stats-limit", options.stats_limit_mb,
          "Maximum size of the --stats file in MB; when full, it becomes FILE.1 and a new one "
          "begins")
      .type_name("MB")
      .number_between(0.001, 1e6)
      .show_default();
  command
      .add_option("--port-file", options.port_file,
                  "When ready, write the address as one line to this file (or /dev/fd/N)")
      .type_name("FILE");
  command
      .add_option("--status-from", options.status_from,
                  "Networks whose hosts may query the status, over TCP on the same port (default: "
                  "this host only)")
      .type_name("CIDR");
  command
      .add_option("--drain-from", options.drain_from,
                  "Networks whose hosts may make the node drain with `atp drain`, and query its "
                  "status (default: root and the user that runs the node, on this host)")
      .type_name("CIDR");
  command
      .add_option(
          "--metrics", options.metrics,
          "Serve metrics for Prometheus at this address, over HTTP (docs/operate/metrics.md); "
          "further lanes use the ports after it")
      .type_name("ADDR:PORT");
  command
      .add_option("--host-name", options.host_names,
                  "Also answer requests for metrics that name this host name (default: addresses, "
                  "localhost and this host's name)")
      .type_name("NAME");
  command
      .add_option(
          "--keys", options.keys,
          "Serve only jobs whose packets carry tags made with a key in this file (see `atp "
          "key`), within the limits that the file sets (docs/operate/operations.md); SIGHUP makes "
          "the node read it again")
      .type_name("FILE");
  command.add_flag("--no-status", options.no_status, "Do not answer `atp status` and `atp drain`");
  command.add_flag("--die-with-parent", options.die_with_parent,
                   "Stop when the parent process ends");
}

Endpoint listen_endpoint(const ServeOptions& options) {
  const Result<Endpoint> listen = resolve_endpoint(options.listen);
  if (!listen) throw CommandError("--listen " + listen.error().message, kWrongUsage);
  return listen.value();
}

Endpoint metrics_endpoint(const ServeOptions& options) {
  const Result<Endpoint> at = resolve_endpoint(options.metrics);
  if (!at) throw CommandError("--metrics " + at.error().message, kWrongUsage);
  return at.value();
}

// Opens the socket. If the kernel chooses the port, it must be free for TCP as well, for `atp
// status`.
UdpSocket open_socket(const Endpoint& local) {
  constexpr std::size_t kTries = 16;
  std::vector<UdpSocket> tried;  // kept open so that the kernel chooses another port
  for (;;) {
    Result<UdpSocket> socket = UdpSocket::listen(local);
    if (!socket) throw CommandError(socket.error().message);
    const bool chosen = local.port == 0 && tried.size() < kTries;
    if (!chosen || TcpSocket::listen(socket.value().local())) return std::move(socket).value();
    tried.push_back(std::move(socket).value());
  }
}

std::uint16_t value_count(const ServeOptions& options, const Endpoint& listen) {
  if (options.values != 0) return static_cast<std::uint16_t>(options.values);
  const Result<std::size_t> mtu = interface_mtu(listen);
  if (!mtu) throw CommandError(mtu.error().message);
  const std::uint16_t values =
      values_for_mtu(mtu.value(), 1, options.keys.empty() ? 0 : ATP_TAG_BYTES);
  if (values == 0) {
    throw CommandError(
        fmt::format("the interface of {} has an MTU of {} bytes, too small for a single "
                    "value; listen on another interface",
                    to_string(listen), mtu.value()));
  }
  return values;
}

StopSignals::StopSignals(Waker& waker, bool service) {
  stop_waker = &waker;
  hangup_reloads = service;
  stop_signal = 0;
  struct sigaction action{};
  action.sa_sigaction = stop_loop;
  action.sa_flags = SA_SIGINFO;
  set_action(action);
}

StopSignals::~StopSignals() {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  set_action(action);
  stop_waker = nullptr;
}

bool StopSignals::has_come() { return stop_signal != 0; }

bool StopSignals::take_reload() { return reload_asked.exchange(false); }

std::string StopSignals::reason() {
  const int signal = stop_signal;
  if (signal == 0) return "no signal";
  const std::string name = fmt::format("SIG{}", sigabbrev_np(signal));
  return stop_sender == 0 ? name : fmt::format("{} from process {}", name, stop_sender.load());
}

Reporter::Reporter(std::string_view role, const ServeOptions& options,
                   std::vector<WatchedCounter> watched)
    : role_(role),
      interval_(static_cast<Duration::rep>(options.stats_interval_s * 1e9)),
      next_(clock_now() + interval_),
      watch_(std::move(watched)) {
  if (options.stats_file.empty()) return;
  Result<StatsFile> file =
      StatsFile::open(options.stats_file, static_cast<std::size_t>(options.stats_limit_mb * 1e6));
  if (!file) throw CommandError(file.error().message);
  file_ = std::move(file).value();
}

void Reporter::report(Instant now, const CounterSnapshot& counters) {
  next_ = now + interval_;
  for (const std::string& line : watch_.lines(counters)) log_info("{}", line);
  if (!file_) return;
  const auto news = file_->append(to_json_line(seconds_since_1970(), role_, counters));
  if (news) log_warning("{}", *news);
}

void NarrowPathLog::add(const Endpoint& peer, std::size_t mtu) {
  if (reported_.size() == kMaxHosts) return;
  if (std::find(reported_.begin(), reported_.end(), peer.address) != reported_.end()) return;
  reported_.push_back(peer.address);
  log_warning(
      "the path to {} has an MTU of {} bytes, so fragments do not arrive there: start the {} with "
      "--values {} or less, or raise the MTU on the path",
      host_text(peer), mtu, role_, values_for_mtu(mtu));
}

void announce(std::string_view role, const UdpSocket& socket, const ServeOptions& options) {
  const std::string address = to_string(socket.local());
  fmt::print("atp {} listening on {}\n", role, address);
  std::fflush(stdout);
  write_port_file(options, address);
}

void write_port_file(const ServeOptions& options, const std::string& address) {
  if (options.port_file.empty()) return;
  const int fd = open(options.port_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const std::string line = address + "\n";
  const bool written =
      fd >= 0 && write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const int problem = errno;
  if (fd >= 0) close(fd);
  if (!written) {
    throw CommandError(
        fmt::format("cannot write --port-file {}: {}", options.port_file, std::strerror(problem)));
  }
}

std::unique_ptr<StatusService> start_status(const UdpSocket& socket, const ServeOptions& options,
                                            Waker& waker) {
  if (options.no_status) return nullptr;
  StatusAllowed allowed{.status = networks_of("--status-from", options.status_from),
                        .drain = networks_of("--drain-from", options.drain_from)};
  auto service = StatusService::start(socket.local(), std::move(allowed), waker);
  if (service) return std::move(service).value();
  log_warning("`atp status` will not be answered: {}", service.error().message);
  return nullptr;
}

std::unique_ptr<MetricsService> start_metrics(const ServeOptions& options, Waker& waker) {
  if (options.metrics.empty()) return nullptr;
  auto service = MetricsService::start(metrics_endpoint(options),
                                       own_names(options.host_names, options.metrics), waker);
  if (!service) {
    throw CommandError(fmt::format("--metrics {}: {}", options.metrics, service.error().message));
  }
  log_info("serving metrics at http://{}/metrics", to_string(service.value()->address()));
  return std::move(service).value();
}

void run_without_fail(const std::function<void()>& loop) {
  constexpr std::chrono::minutes kBetweenLines{1};
  auto next_line = std::chrono::steady_clock::now();
  for (;;) {
    try {
      return loop();
    } catch (const std::bad_alloc&) {
      const auto now = std::chrono::steady_clock::now();
      if (now < next_line) continue;
      next_line = now + kBetweenLines;
      std::fputs(
          "atp: the system gives this node no more memory, so it may drop packets: raise its limit "
          "(ulimit -v, or that of the container)\n",
          stderr);
    }
  }
}

void reload(NodeKeys* keys, NodeWeights* weights) {
  if (keys != nullptr) keys->reload();
  if (weights != nullptr) weights->reload();
  if (keys != nullptr || weights != nullptr) return;
  log_warning(
      "SIGHUP: there is nothing to read again, because this node has no --keys and no --weights; "
      "it goes on (SIGTERM ends it)");
}

void obey_parent(const ServeOptions& options) {
  if (!options.die_with_parent) return;
  const pid_t parent = getppid();
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  // If the parent has already died, no signal will come.
  if (parent == 1 || getppid() != parent) throw CommandError("the parent process has ended");
}

}  // namespace atp
