#pragma once

#include <poll.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "atp/collective/ring/engine.h"
#include "atp/collective/ring/ring.h"
#include "atp/driver/udp/waker.h"

namespace atp {

// Two sides share this object. The thread owns the engine. Callers and the thread meet in the
// board, under mutex_.
class Ring::Impl : public std::enable_shared_from_this<Ring::Impl> {
 public:
  Impl(RingOptions options, std::unique_ptr<RingEngine> engine, std::unique_ptr<Waker> waker)
      : options_(std::move(options)), engine_(std::move(engine)), waker_(std::move(waker)) {}

  void start();
  std::shared_ptr<RingOperation> submit(RingRequest request);
  Status shutdown(std::chrono::milliseconds timeout);
  void close(const std::string& why);
  RingCounterList counters();

  const RingOptions& options() const { return options_; }
  bool forked() const { return getpid() != owner_; }
  bool is_alone() const { return options_.world_size == 1; }
  bool on_own_thread() const;

 private:
  struct Board {
    std::deque<std::shared_ptr<RingOperation>> submitted;
    std::size_t pending = 0;  // taken by the engine and not ended
    bool closed = false;      // takes no more operations
    bool ended = false;       // the thread is gone, or about to go
    std::string why_closed;
    std::optional<std::string> failure;
    RingCounters counters;
  };

  void run();
  bool take_commands();
  void publish();  // and tells those whose operations have ended
  std::array<pollfd, 4> wait_for_work();
  std::optional<std::string> enqueue(const std::shared_ptr<RingOperation>& operation);

  const RingOptions options_;
  const pid_t owner_ = getpid();
  std::unique_ptr<RingEngine> engine_;  // null: alone
  std::unique_ptr<Waker> waker_;
  std::thread thread_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Board board_;
  std::mutex order_mutex_;  // numbers and submissions are in one order
  std::uint64_t next_number_ = 0;
};

}  // namespace atp
