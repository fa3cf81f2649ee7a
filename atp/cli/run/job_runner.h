#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "atp/base/time.h"
#include "atp/cli/command/log.h"
#include "atp/cli/run/end_policy.h"
#include "atp/cli/run/host_plan.h"
#include "atp/cli/run/process.h"
#include "atp/cli/run/tagged_outputs.h"
#include "atp/cli/run/wills.h"

// `atp run` in the supervisor process (guard.h), the parent of all servers, switches and ranks. It
// starts the nodes, waits until they listen, starts the ranks, and then reacts to events: a child
// ends, a signal arrives, a rank writes output, the front process ends. The nodes end after the
// last rank.
//
// Without ranks the nodes serve until a signal ends them, and a node that dies is restarted. One
// that ends with code 0 was asked to, by `atp drain` for example: it is not restarted, and when all
// have ended in this way, `atp run` ends.

namespace atp {

struct RunnerOptions {
  std::vector<std::string> command;
  double grace_s = 15;
  bool tag_output = false;
};

class JobRunner {
 public:
  JobRunner(const RunnerOptions& options, const HostPlan& plan, int front_fd);
  ~JobRunner();
  JobRunner(const JobRunner&) = delete;
  JobRunner& operator=(const JobRunner&) = delete;

  // Returns the exit code of `atp run`.
  int run();

 private:
  enum class Kind { kRank, kNode };
  struct Child {
    std::string name;  // "rank 3", "switch"
    Kind kind = Kind::kRank;
    pid_t pid = -1;
    bool running = true;
    const NodePlan* plan = nullptr;  // nodes only
    bool done = false;               // a node that was asked to end, so it is not restarted
    std::optional<std::size_t> rank;
  };

  int run_job();
  int serve();
  std::string start_nodes();  // returns the routes through them
  std::string start_node(const NodePlan& plan);
  std::string level_of_nodes() const;
  void restart_nodes();
  int start_ranks(const JobEnvironment& job);  // returns 0, or the exit code if one failed to start
  Started start_rank(const JobEnvironment& job, std::size_t rank);
  int tagged(std::size_t rank, int to);  // the descriptor for its output to `to`

  // Handles events until `until`, the end of the front process, or the end of all ranks (or nodes).
  void watch(Kind kind, Instant until);
  void wait_for_something(Instant until);
  void handle_signals();
  void reload_nodes();
  void stop_or_continue(int signal);
  void reap();
  void handle_end(Child& child, int status);
  void apply(EndPolicy::Step step);
  LogAbout about(const Child& child) const;
  void signal_all(Kind kind, int signal);
  bool any_running(Kind kind) const;
  void stop_nodes();

  const RunnerOptions& options_;
  const HostPlan& plan_;
  int front_fd_;
  int signal_fd_ = -1;
  bool front_died_ = false;
  bool asked_to_end_ = false;
  bool stopping_nodes_ = false;
  Instant restart_ = kNever;  // when to restart nodes that have died
  EndPolicy policy_;
  std::vector<Child> children_;
  TaggedOutputs outputs_;
  Wills wills_;
};

}  // namespace atp
