#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "atp/base/time.h"
#include "atp/cli/end_policy.h"
#include "atp/cli/line_tagger.h"
#include "atp/cli/process.h"

// `atp run`, in the supervisor process (guard.h): a server, a switch, and one process per rank, all
// children of this process. It starts the nodes and waits until they listen, starts the ranks, and
// then only reacts: to the end of a child, to a signal, to a rank's output, to the end of the front
// process. The nodes end after the last rank.

namespace atp {

struct RunOptions {
  std::size_t ranks = 0;
  std::vector<std::string> command;
  std::uint32_t servers = 1;  // over which the tensors are spread
  bool without_switch = false;
  std::uint32_t values = 0;       // per fragment; 0: not given
  std::uint32_t aggregators = 0;  // of the switch; 0: its default
  std::string stats_folder;
  double grace_s = 15;
  bool tag_output = false;
};

class JobRunner {
 public:
  JobRunner(const RunOptions& options, int front_fd);
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
  };
  struct Output {
    int from = -1;
    int to = -1;
    LineTagger tagger;
  };

  std::string start_nodes();  // returns the routes
  std::string start_node(const std::string& role, const std::vector<std::string>& arguments);
  int start_ranks(const std::string& route);  // returns 0 or the exit code of the failure
  int tagged(const std::string& tag, int to);

  // Reacts until `until`, the end of the front process, or the end of all ranks (or nodes).
  void watch(Kind kind, Instant until);
  void wait_for_something(Instant until);
  void handle_signals();
  void reap();
  void handle_end(const Child& child, int status);
  void apply(EndPolicy::Step step);
  void forward_output(Output& output);
  void finish_outputs();
  void signal_all(Kind kind, int signal);
  bool any_running(Kind kind) const;
  void stop_nodes();

  const RunOptions& options_;
  int front_fd_;
  int signal_fd_ = -1;
  bool front_died_ = false;
  bool stopping_nodes_ = false;
  EndPolicy policy_;
  std::vector<Child> children_;
  std::vector<Output> outputs_;
};

}  // namespace atp
