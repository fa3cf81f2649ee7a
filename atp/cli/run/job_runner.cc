#include "atp/cli/run/job_runner.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <span>

#include "atp/cli/command/command.h"
#include "atp/cli/command/log.h"
#include "atp/cli/run/guard.h"
#include "atp/cli/run/process.h"
#include "atp/config/site/routes.h"
#include "atp/driver/udp/event_loop.h"

namespace atp {
namespace {

constexpr int kCannotRun = 126;
constexpr int kNotFound = 127;
constexpr Duration kRestartPause = std::chrono::seconds(1);
constexpr Duration kNodesPeriod = std::chrono::seconds(5);  // for writing their last counters

double to_seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

std::string name_of_rank(std::size_t rank) { return fmt::format("rank {}", rank); }

bool ended_as_asked(int status) {
  return exit_code_of(status) == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

Duration to_duration(double seconds) { return Duration(static_cast<Duration::rep>(seconds * 1e9)); }

}  // namespace

JobRunner::JobRunner(const RunnerOptions& options, const HostPlan& plan, int front_fd)
    : options_(options), plan_(plan), front_fd_(front_fd), policy_(to_duration(options.grace_s)) {
  const sigset_t signals = supervised_signals();
  signal_fd_ = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
  if (signal_fd_ < 0) {
    throw CommandError(fmt::format("cannot create a signalfd: {}", std::strerror(errno)));
  }
}

JobRunner::~JobRunner() { close(signal_fd_); }

int JobRunner::run() { return plan_.job ? run_job() : serve(); }

int JobRunner::run_job() {
  JobEnvironment job = *plan_.job;
  const std::string route = start_nodes();
  if (job.route.empty()) job.route = route;
  if (const std::string replaced = job.replaced(); !replaced.empty()) {
    log_warning("the ranks get values of this job's own instead of your {}", replaced);
  }
  const int failure = start_ranks(job);
  if (failure != 0) return failure;
  watch(Kind::kRank, kNever);
  if (front_died_) return kOperationFailed;
  stop_nodes();
  outputs_.finish();
  return policy_.exit_code();
}

int JobRunner::serve() {
  start_nodes();
  log_info("host {} is ready", plan_.host);
  while (!asked_to_end_ && !front_died_ && (any_running(Kind::kNode) || restart_ != kNever)) {
    wait_for_something(restart_);
    if (clock_now() >= restart_) restart_nodes();
  }
  if (front_died_) return kOperationFailed;
  stop_nodes();
  return 0;
}

std::string JobRunner::start_nodes() {
  std::map<std::uint32_t, std::vector<std::string>> switches;  // by lane
  std::vector<std::vector<std::string>> routes;
  const auto add_server = [&](std::uint32_t lane, const std::string& address) {
    routes.push_back(switches[lane]);
    routes.back().push_back(address);
  };
  for (const NodePlan& plan : plan_.nodes) {
    const std::string address = start_node(plan);
    if (plan.role == "switch") {
      switches[plan.lane].push_back(address);
    } else {
      add_server(plan.lane, address);
    }
  }
  // Colocated servers start with the ranks.
  if (plan_.job) {
    for (const std::string& address : plan_.job->colocated_servers) add_server(0, address);
  }
  return route_text(routes);
}

std::string JobRunner::start_node(const NodePlan& plan) {
  const StartedNode node = start_node_process(plan, level_of_nodes());
  children_.push_back({plan.name, Kind::kNode, node.pid, true, &plan});
  log_info("{} on {} (process {})", plan.name, node.address, node.pid);
  return node.address;
}

// With ranks, the nodes' info lines would only repeat ours, so they log warnings and worse.
std::string JobRunner::level_of_nodes() const {
  const std::string level = log_level();
  return plan_.job && level == "info" ? "warning" : level;
}

void JobRunner::restart_nodes() {
  restart_ = kNever;
  std::vector<const NodePlan*> dead;
  for (const Child& child : children_) {
    if (child.kind == Kind::kNode && !child.running && !child.done) dead.push_back(child.plan);
  }
  std::erase_if(children_, [](const Child& child) { return !child.running; });
  for (const NodePlan* plan : dead) {
    try {
      start_node(*plan);
    } catch (const CommandError& error) {
      log_error("{}; retrying in {} s", error.what(), to_seconds(kRestartPause));
      children_.push_back({plan->name, Kind::kNode, -1, false, plan});
      restart_ = clock_now() + kRestartPause;
    }
  }
}

int JobRunner::start_ranks(const JobEnvironment& job) {
  const std::size_t end = job.first_rank + job.local_ranks;
  for (std::size_t rank = job.first_rank; rank < end; ++rank) {
    const Started started = start_rank(job, rank);
    if (started.pid < 0) {
      log(LogLevel::kError, started.failure.message,
          {.job = job.job,
           .incarnation = job.incarnation,
           .ranks = {static_cast<std::uint32_t>(rank)}});
      return started.failure.not_found ? kNotFound : kCannotRun;
    }
    children_.push_back(
        {.name = name_of_rank(rank), .kind = Kind::kRank, .pid = started.pid, .rank = rank});
  }
  log(LogLevel::kInfo,
      fmt::format("started {} of {} ranks of job {}: {}", job.local_ranks, job.ranks, job.job,
                  fmt::join(options_.command, " ")),
      {.job = job.job, .incarnation = job.incarnation, .ranks = {}});
  return 0;
}

Started JobRunner::start_rank(const JobEnvironment& job, std::size_t rank) {
  ProcessSpec spec;
  spec.arguments = options_.command;
  spec.environment = job.of_rank(rank);
  const std::string wills = wills_.folder_of(name_of_rank(rank));
  if (!wills.empty()) spec.environment.emplace_back("ATP_WILLS", wills);
  if (!options_.tag_output) return start_process(spec);
  spec.stdout_fd = tagged(rank, STDOUT_FILENO);
  spec.stderr_fd = tagged(rank, STDERR_FILENO);
  const Started started = start_process(spec);
  close(spec.stdout_fd);
  close(spec.stderr_fd);
  return started;
}

int JobRunner::tagged(std::size_t rank, int to) {
  const int fd = outputs_.open(fmt::format("[{}] ", rank), to);
  if (fd >= 0) return fd;
  throw CommandError(fmt::format("cannot create a pipe for the output of rank {}: {}", rank,
                                 std::strerror(errno)));
}

void JobRunner::watch(Kind kind, Instant until) {
  while ((any_running(kind) || wills_.next() != kNever) && !front_died_ && clock_now() < until) {
    wait_for_something(std::min({until, policy_.next(), wills_.next()}));
    wills_.send_due(clock_now());
    apply(policy_.due(clock_now()));
  }
}

void JobRunner::wait_for_something(Instant until) {
  std::vector<pollfd> waiting = {{front_fd_, POLLIN, 0}, {signal_fd_, POLLIN, 0}};
  outputs_.add_to(waiting);
  int timeout_ms = -1;
  if (until != kNever) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - clock_now());
    timeout_ms = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30));
  }
  if (poll(waiting.data(), waiting.size(), timeout_ms) <= 0) return;
  front_died_ = waiting[0].revents != 0;
  if (waiting[1].revents != 0) handle_signals();
  outputs_.forward(std::span(waiting).subspan(2));
}

void JobRunner::handle_signals() {
  signalfd_siginfo info{};
  while (read(signal_fd_, &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) {
      reap();
      continue;
    }
    log_debug("forwarding SIG{} from process {}", sigabbrev_np(signal), info.ssi_pid);
    if (signal == SIGTSTP || signal == SIGCONT) {
      stop_or_continue(signal == SIGTSTP ? SIGSTOP : SIGCONT);
      continue;
    }
    const bool terminal_is_gone = info.ssi_code == SI_QUEUE && info.ssi_int == kTerminalIsGone;
    if (signal == SIGHUP && !plan_.job && !terminal_is_gone) {
      reload_nodes();
      continue;
    }
    signal_all(Kind::kRank, signal);
    if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT) {
      if (!asked_to_end_ && !plan_.job) log_info("stopping: SIG{}", sigabbrev_np(signal));
      asked_to_end_ = true;
      policy_.asked_to_end(clock_now());
    }
  }
}

// A service has nothing to reload itself, but its nodes may have keys, and its switches weights.
void JobRunner::reload_nodes() {
  bool any = false;
  for (const Child& child : children_) {
    if (child.kind != Kind::kNode || !child.running || !child.plan->reads_again()) continue;
    kill(-child.pid, SIGHUP);
    any = true;
  }
  if (!any) log_info("SIGHUP: there is nothing to read again for the nodes of this host");
}

// SIGTSTP suspends the whole job, switches and servers included: otherwise they would consider the
// ranks lost after a lease.
void JobRunner::stop_or_continue(int signal) {
  signal_all(Kind::kRank, signal);
  signal_all(Kind::kNode, signal);
}

void JobRunner::reap() {
  int status = 0;
  for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    for (Child& child : children_) {  // adopted orphans are not in the list
      if (child.pid != pid || !child.running) continue;
      child.running = false;
      handle_end(child, status);
    }
  }
}

void JobRunner::handle_end(Child& child, int status) {
  if (child.kind == Kind::kNode) {
    if (stopping_nodes_ && ended_as_asked(status)) return;
    if (!plan_.job && exit_code_of(status) == 0) {
      child.done = true;
      log_info("the {} has ended as asked (`atp drain`, or a signal): not restarting it",
               child.name);
      return;
    }
    log_error("the {} {}", child.name, how_it_ended(status));
    if (!plan_.job) restart_ = clock_now() + kRestartPause;
    return;
  }
  wills_.execute(clock_now(), child.name, "its process " + how_it_ended(status));
  const bool first = policy_.rank_ended(clock_now(), exit_code_of(status));
  if (exit_code_of(status) == 0) return;
  if (first && any_running(Kind::kRank)) {
    log(LogLevel::kError,
        fmt::format("{} {}; the other ranks have {} s to exit", child.name, how_it_ended(status),
                    options_.grace_s),
        about(child));
  } else {
    log(LogLevel::kError, fmt::format("{} {}", child.name, how_it_ended(status)), about(child));
  }
}

LogAbout JobRunner::about(const Child& child) const {
  LogAbout about;
  if (!child.rank) return about;
  about.job = plan_.job->job;
  about.incarnation = plan_.job->incarnation;
  about.ranks = {static_cast<std::uint32_t>(*child.rank)};
  return about;
}

void JobRunner::apply(EndPolicy::Step step) {
  if (step == EndPolicy::Step::kNone) return;
  const bool terminate = step == EndPolicy::Step::kTerminate;
  for (const Child& child : children_) {
    if (child.kind != Kind::kRank || !child.running) continue;
    log(LogLevel::kWarning,
        fmt::format("{} is still running: sending {}", child.name,
                    terminate ? "SIGTERM" : "SIGKILL"),
        about(child));
  }
  signal_all(Kind::kRank, terminate ? SIGTERM : SIGKILL);
}

// Signals each process group, because a rank may be a shell script.
void JobRunner::signal_all(Kind kind, int signal) {
  for (const Child& child : children_) {
    if (child.kind == kind && child.running) kill(-child.pid, signal);
  }
}

bool JobRunner::any_running(Kind kind) const {
  return std::any_of(children_.begin(), children_.end(),
                     [kind](const Child& child) { return child.kind == kind && child.running; });
}

void JobRunner::stop_nodes() {
  stopping_nodes_ = true;
  signal_all(Kind::kNode, SIGTERM);
  watch(Kind::kNode, clock_now() + kNodesPeriod);
}

}  // namespace atp
