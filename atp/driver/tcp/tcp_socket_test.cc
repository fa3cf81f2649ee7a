#include "atp/driver/tcp/tcp_socket.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>
#include <vector>

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Sends signals to the thread that made it, again and again, to interrupt its system calls.
class Pester {
 public:
  Pester() : thread_([this, whom = pthread_self()] { run(whom); }) {}
  ~Pester() {
    stop_ = true;
    thread_.join();
  }
  Pester(const Pester&) = delete;
  Pester& operator=(const Pester&) = delete;

 private:
  void run(pthread_t whom) const {
    while (!stop_) {
      pthread_kill(whom, SIGUSR1);
      std::this_thread::sleep_for(milliseconds(1));
    }
  }

  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

TEST(TcpSocket, ASignalIsNotTakenForAConnection) {
  struct sigaction interrupting{};
  interrupting.sa_handler = [](int) {};
  sigaction(SIGUSR1, &interrupting, nullptr);
  const TcpSocket listener = TcpSocket::listen(Endpoint::ipv4(127, 0, 0, 1, 0)).value();
  // A listener that does not accept has a short queue; the kernel drops the SYNs that exceed it.
  ASSERT_EQ(::listen(listener.fd(), 0), 0);
  const Endpoint to = listener.local().value();
  std::vector<TcpSocket> waiting;
  const Pester pester;
  for (int i = 0; i < 4; ++i) {
    Result<TcpSocket> socket = TcpSocket::connect(to, steady_clock::now() + milliseconds(300));
    if (!socket) return;
    waiting.push_back(std::move(socket).value());
  }
  FAIL() << "four connections to a listener that accepts none";
}

}  // namespace
}  // namespace atp
