#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "atp/base/result.h"
#include "atp/collective/communicator.h"
#include "atp/collective/host/closed_in_child.h"
#include "atp/core/server/server.h"
#include "atp/driver/udp/socket.h"
#include "atp/driver/udp/waker.h"

namespace atp {

// A server of the job inside this process: a socket and a thread that drives the same Server as
// `atp server` does. All communicators of the process that name the same address share one; it ends
// with the last of them, and whoever still needs it then fails as with any server that is gone.
class OwnServer {
 public:
  // values_per_fragment: K at most; 0: what the MTU of the address carries.
  static Result<std::shared_ptr<OwnServer>> at(const Endpoint& listen,
                                               std::size_t values_per_fragment);
  OwnServer(UdpSocket socket, std::unique_ptr<Waker> waker, const ServerConfig& config);
  Status start();
  ~OwnServer();
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;

  // Waits until all ranks of the job have left it or are lost; at most until `until`. False if some
  // are still there.
  bool wait_until_left(const JobKey& job, std::chrono::steady_clock::time_point until);
  // "server_fragments_completed" and so on.
  CounterList counters();

 private:
  // What the thread tells the others, under mutex_.
  struct Board {
    Counters<ServerCounter> counters;
    std::size_t waiting = 0;   // callers that want to know the jobs
    std::uint64_t looked = 0;  // how often the jobs were looked at
    std::vector<JobKey> jobs;  // with a rank in it
  };

  void run();
  Instant on_round(Instant now);

  const pid_t owner_;
  UdpSocket socket_;
  const ClosedInChild closed_in_child_;
  std::unique_ptr<Waker> waker_;
  Server server_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Board board_;
  std::thread thread_;  // last, as it uses all the others
};

}  // namespace atp
