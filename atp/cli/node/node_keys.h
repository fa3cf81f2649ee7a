#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "atp/base/rank_set.h"
#include "atp/base/time.h"
#include "atp/cli/command/log.h"
#include "atp/cli/status/job_name.h"
#include "atp/driver/keys/keyring.h"
#include "atp/driver/udp/waker.h"
#include "atp/wire/endpoint.h"

// The keys of a switch or a server (`--keys FILE`), which SIGHUP makes it read again, and its log
// lines about JOINs that the keys do not fit.

namespace atp {

// "added speech; removed vision (which ends their running jobs)".
std::string changes_text(const std::vector<Tenant>& before, const std::vector<Tenant>& now);

class NodeKeys {
 public:
  // Null without a file. Throws CommandError if the file has no valid keys.
  static std::unique_ptr<NodeKeys> open(const std::string& path);

  Keyring& ring() { return ring_; }
  // Logs what has changed. With an error in the file, the keys stay as they are.
  void reload();

 private:
  NodeKeys(std::string path, std::vector<Tenant> tenants)
      : path_(std::move(path)), ring_(Keyring::Side::kNode, std::move(tenants)) {}

  const std::string path_;
  Keyring ring_;
};

// Says that a file with an error has been read again: `problem` is the error with which the node
// would end at its start, "keys" what it keeps.
void log_refused(const std::string& problem, const char* what);

// The fields of a log line about a job and some of its ranks.
LogAbout about(const JobName& job, const RankSet& ranks = {});

// How a node's log names its jobs: with keys, others may have one of the same number, too.
class JobNames {
 public:
  explicit JobNames(const Keyring* keys = nullptr) : keys_(keys) {}
  JobName of(const JobKey& job) const {
    return {job.job, keys_ == nullptr ? "" : keys_->name_of(job.tenant), job.incarnation};
  }

 private:
  const Keyring* keys_;
};

// One line per host and problem, at most one in ten seconds, because a rank repeats its JOIN and a
// stranger can send any number.
class KeyRefusalLog {
 public:
  // `runs`: whether the node knows the job that the JOIN names.
  void add(Instant now, const Endpoint& from, std::span<const std::uint8_t> join,
           KeyProblem problem, const std::function<bool(std::uint32_t job)>& runs);

 private:
  static constexpr std::size_t kMaxHosts = 64;
  static constexpr Duration kPause = std::chrono::seconds(10);

  struct Said {
    decltype(Endpoint::address) host;
    KeyProblem problem;
    Instant at;
  };
  std::vector<Said> said_;
};

}  // namespace atp
