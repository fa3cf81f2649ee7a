#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "atp/base/rank_set.h"
#include "atp/base/result.h"
#include "atp/collective/base/closed_in_child.h"
#include "atp/collective/base/request.h"
#include "atp/core/server/server.h"
#include "atp/driver/keys/key_file.h"
#include "atp/driver/udp/socket.h"
#include "atp/driver/udp/waker.h"

namespace atp {

// A server of the job inside this process: a socket and a thread that drives the same Server as
// `atp server`. All communicators of the process with the same address share one. It ends with the
// last of them, and a rank that still needs it then fails, as with any server that is gone.
class ColocatedServer {
 public:
  // values_per_fragment: the maximum K; 0: as many as the MTU of the address carries. `key`: the
  // job's; fails if the server at that address has a different one.
  static Result<std::shared_ptr<ColocatedServer>> at(const Endpoint& listen,
                                                     std::size_t values_per_fragment,
                                                     const std::optional<Tenant>& key = {});
  ColocatedServer(UdpSocket socket, std::unique_ptr<Waker> waker, const ServerConfig& config,
                  const std::optional<Tenant>& key);
  Status start();
  ~ColocatedServer();
  ColocatedServer(const ColocatedServer&) = delete;
  ColocatedServer& operator=(const ColocatedServer&) = delete;

  // Waits until all ranks of the job have left or are lost, but not beyond `until`, and says for
  // whom after a second. False: some are still there.
  bool wait_until_left(const JobKey& job, std::chrono::steady_clock::time_point until,
                       const std::function<void(const std::string&)>& say);
  // "server_fragments_completed" and so on.
  CounterList counters();

 private:
  // Published by the thread, under mutex_.
  struct Board {
    Counters<ServerCounter> counters;
    std::size_t waiting = 0;         // callers that wait for the list of jobs
    std::uint64_t looked = 0;        // how many times the jobs were listed
    std::map<JobKey, RankSet> jobs;  // those that have a rank, and its ranks
  };

  void run();
  Instant on_round(Instant now);

  const pid_t owner_;
  UdpSocket socket_;
  const ClosedInChild closed_in_child_;
  std::unique_ptr<Waker> waker_;
  const std::optional<Tenant> key_;
  Server server_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Board board_;
  std::thread thread_;  // last, because it uses all other members
};

}  // namespace atp
