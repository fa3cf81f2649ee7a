#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "atp/driver/tcp/acceptor.h"
#include "atp/driver/udp/waker.h"

// Answers short dialogues over TCP, from one thread: a client connects, asks, gets its answer, and
// closes. It serves `atp status`, metrics and the page of `atp view`. Each client has a bounded
// time, all are served side by side, and there are at most so many (acceptor.h).

namespace atp {

class TalkServer {
 public:
  struct Client {
    const TcpSocket& socket;
    const std::string& bytes;  // all that it has sent so far
  };
  struct Answer {
    std::string bytes;
    // After these bytes, the client gets all that is published, until too many newer ones do.
    bool stays = false;
  };
  struct Heard {
    bool is_over = false;  // close the connection
    std::optional<Answer> answer;
  };
  // All are called on the server's thread.
  struct Owner {
    // What to do when a client has sent more: nothing yet, answer, or close.
    std::function<Heard(const Client&)> hear;
    // Whether to talk to this client at all. Empty: yes.
    std::function<bool(const TcpSocket&)> admits;
    std::function<void(const std::string&)> tell;  // a line for the log
    std::size_t most_bytes = 0;                    // that a client may send
    std::chrono::milliseconds patience{0};         // per client
  };

  static Result<std::unique_ptr<TalkServer>> start(const Endpoint& at, Owner owner);
  ~TalkServer();
  TalkServer(const TalkServer&) = delete;
  TalkServer& operator=(const TalkServer&) = delete;

  const Endpoint& address() const { return address_; }
  int listener() const { return listener_.fd(); }
  // Ends the server's part in all talks and returns when the thread has ended. An owner whose
  // functions wait for something must end that first.
  void stop();

  // Sends this to all clients that stay. One that has not read an earlier text skips this one, so
  // each text must make sense on its own; one that reads nothing during its patience is closed. Any
  // thread.
  void publish(std::string text);
  // How often the thread has woken up.
  std::uint64_t rounds() const { return rounds_.load(std::memory_order_relaxed); }

 private:
  struct Talk {
    TcpSocket socket;
    SteadyTime end;
    std::string heard = {};
    std::string reply = {};  // the part that is not sent yet
    bool answered = false;
    bool stays = false;
    bool over = false;
  };

  TalkServer(TcpSocket listener, const Endpoint& address, Owner owner,
             std::unique_ptr<Waker> waker);
  void run();
  void serve();  // until it is to stop
  int time_left(SteadyTime now) const;
  void take_connections(SteadyTime now);
  void go_on(Talk& talk);
  void listen_to(Talk& talk);
  void send_reply(Talk& talk);
  void move_those_that_stay(SteadyTime now);
  void drop_old(SteadyTime now);
  void send_published(SteadyTime now);

  const TcpSocket listener_;
  const Endpoint address_;
  const Owner owner_;
  const std::unique_ptr<Waker> waker_;
  Acceptor acceptor_;
  std::atomic<std::uint64_t> rounds_{0};
  std::mutex mutex_;
  std::optional<std::string> published_;  // not sent yet
  std::vector<Talk> talks_;               // used by the thread; the oldest first
  std::vector<Talk> staying_;             // likewise
  std::thread thread_;                    // last, because it uses the others
};

}  // namespace atp
