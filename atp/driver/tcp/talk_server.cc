#include "atp/driver/tcp/talk_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <utility>

#include "atp/driver/udp/address.h"

namespace atp {
namespace {

bool is_for_later(int error) { return error == EAGAIN || error == EINTR; }

}  // namespace

Result<std::unique_ptr<TalkServer>> TalkServer::start(const Endpoint& at, Owner owner) {
  Result<TcpSocket> listener = TcpSocket::listen(at);
  if (!listener) return listener.error();
  const Result<Endpoint> address = listener.value().local();
  if (!address) return address.error();
  auto waker = Waker::create();
  if (!waker) return waker.error();
  return std::unique_ptr<TalkServer>(new TalkServer(std::move(listener).value(), address.value(),
                                                    std::move(owner), std::move(waker).value()));
}

TalkServer::TalkServer(TcpSocket listener, const Endpoint& address, Owner owner,
                       std::unique_ptr<Waker> waker)
    : listener_(std::move(listener)),
      address_(address),
      owner_(std::move(owner)),
      waker_(std::move(waker)),
      acceptor_(listener_.fd(), "TCP connections to " + to_string(address)),
      thread_([this] { run(); }) {}

TalkServer::~TalkServer() { stop(); }

void TalkServer::stop() {
  waker_->stop();
  if (thread_.joinable()) thread_.join();
}

void TalkServer::publish(std::string text) {
  {
    const std::lock_guard lock(mutex_);
    published_ = std::move(text);
  }
  waker_->wake();
}

void TalkServer::run() {
  while (!waker_->stopped()) {
    try {
      serve();
    } catch (const std::bad_alloc&) {
      talks_.clear();  // a smaller loss than the process
    }
  }
}

void TalkServer::serve() {
  std::vector<pollfd> waiting;
  while (!waker_->stopped()) {
    SteadyTime now = std::chrono::steady_clock::now();
    // poll() ignores negative descriptors.
    waiting = {{waker_->fd(), POLLIN, 0},
               {acceptor_.listens(now) ? listener_.fd() : -1, POLLIN, 0}};
    for (const std::vector<Talk>* talks : {&talks_, &staying_}) {
      for (const Talk& talk : *talks) {
        const auto events = static_cast<short>(talk.reply.empty() ? POLLIN : POLLOUT);
        waiting.push_back({talk.socket.fd(), events, 0});
      }
    }
    const int ready = poll(waiting.data(), waiting.size(), time_left(now));
    rounds_.fetch_add(1, std::memory_order_relaxed);
    if (ready < 0) continue;
    now = std::chrono::steady_clock::now();
    auto next = waiting.begin() + 2;
    for (std::vector<Talk>* talks : {&talks_, &staying_}) {
      for (Talk& talk : *talks) {
        if ((next++)->revents != 0) go_on(talk);
      }
    }
    if (waiting[0].revents != 0) waker_->drain();
    drop_old(now);  // first, so that those that have left cost no other its place
    move_those_that_stay(now);
    send_published(now);
    if (waiting[1].revents != 0) take_connections(now);
    drop_old(now);  // also newcomers whose talk is already over
    if (const auto news = acceptor_.take_news()) owner_.tell(*news);
  }
}

// In milliseconds, for poll().
int TalkServer::time_left(SteadyTime now) const {
  SteadyTime next = SteadyTime::max();
  for (const std::vector<Talk>* talks : {&talks_, &staying_}) {
    for (const Talk& talk : *talks) next = std::min(next, talk.end);
  }
  if (!acceptor_.listens(now)) next = std::min(next, acceptor_.rests_until());
  if (next == SteadyTime::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 1 << 30));
}

void TalkServer::take_connections(SteadyTime now) {
  for (int i = 0; i < Acceptor::kAtOnce; ++i) {
    TcpSocket socket(acceptor_.take(now));
    if (!socket.is_open()) break;
    socket.send_at_once();
    if (owner_.admits && !owner_.admits(socket)) continue;
    acceptor_.make_room(talks_, now, [](Talk&) {});
    talks_.push_back({.socket = std::move(socket), .end = now + owner_.patience});
    go_on(talks_.back());  // usually it has asked by now
  }
  move_those_that_stay(now);
}

void TalkServer::go_on(Talk& talk) {
  if (talk.reply.empty()) listen_to(talk);
  if (!talk.reply.empty()) send_reply(talk);
}

void TalkServer::listen_to(Talk& talk) {
  std::array<char, 4096> bytes;
  const ssize_t got = recv(talk.socket.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0 && is_for_later(errno)) return;
  talk.over = got <= 0;  // after the answer: the client has read all of it
  if (talk.over || talk.answered) return;
  talk.heard.append(bytes.data(), static_cast<std::size_t>(got));
  const bool is_too_much = talk.heard.size() >= owner_.most_bytes;
  talk.heard.resize(std::min(talk.heard.size(), owner_.most_bytes));
  Heard heard = owner_.hear({talk.socket, talk.heard});
  talk.over = heard.is_over || (is_too_much && !heard.answer);
  if (talk.over || !heard.answer) return;
  talk.answered = true;
  talk.reply = std::move(heard.answer->bytes);
  talk.stays = heard.answer->stays;
}

// Once all is sent, shuts down the sending side; the client closes once it has read everything, so
// nothing is lost.
void TalkServer::send_reply(Talk& talk) {
  const ssize_t put =
      send(talk.socket.fd(), talk.reply.data(), talk.reply.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (put < 0) {
    talk.over = !is_for_later(errno);
    return;
  }
  talk.reply.erase(0, static_cast<std::size_t>(put));
  if (!talk.reply.empty()) return;
  if (talk.stays) {
    talk.end = SteadyTime::max();
  } else {
    shutdown(talk.socket.fd(), SHUT_WR);
  }
}

// They are no guests any more: only another that stays takes their place.
void TalkServer::move_those_that_stay(SteadyTime now) {
  for (auto talk = talks_.begin(); talk != talks_.end();) {
    if (talk->stays && !talk->over) {
      acceptor_.make_room_for_stream(staying_, now);
      staying_.push_back(std::move(*talk));
      talk = talks_.erase(talk);
    } else {
      ++talk;
    }
  }
}

void TalkServer::drop_old(SteadyTime now) {
  for (std::vector<Talk>* talks : {&talks_, &staying_}) {
    std::erase_if(*talks, [now](const Talk& talk) { return talk.over || now >= talk.end; });
  }
}

void TalkServer::send_published(SteadyTime now) {
  std::optional<std::string> text;
  {
    const std::lock_guard lock(mutex_);
    text.swap(published_);
  }
  if (!text) return;
  for (Talk& talk : staying_) {
    if (!talk.reply.empty()) continue;
    talk.reply = *text;
    talk.end = now + owner_.patience;
    send_reply(talk);
  }
}

}  // namespace atp
