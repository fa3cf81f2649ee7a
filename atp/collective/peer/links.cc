// Calls other ranks' listeners, answers their calls, and settles which connection counts.
#include "atp/collective/peer/links.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace atp {
namespace {

using std::chrono::milliseconds;

// How long a stranger may occupy a descriptor.
constexpr std::chrono::seconds kHelloTimeout{2};
constexpr milliseconds kBetweenCalls{50};
constexpr std::size_t kMaxGuests = 1024;
// How long another host may refuse calls: its firewall may do so, while its rank can call this one.
constexpr std::chrono::seconds kRefusals{1};
// When to say that a connection is still missing.
constexpr std::chrono::seconds kLongWait{1};
constexpr const char* kTurnedAway = "it closes the connection without an answer";

// Reads the rest of a Hello. False: it will never come.
bool read_hello(const TcpSocket& socket, Hello& hello, std::size_t& got) {
  auto* at = reinterpret_cast<std::byte*>(&hello);
  while (got < sizeof hello) {
    // Read no more than that: the rest belongs to the connection.
    const ssize_t moved = recv(socket.fd(), at + got, sizeof hello - got, MSG_DONTWAIT);
    if (moved > 0) {
      got += static_cast<std::size_t>(moved);
    } else {
      return moved < 0 && (errno == EAGAIN || errno == EINTR);
    }
  }
  return true;
}

// Writes into the empty buffer of a new connection: all of it or nothing.
bool write_hello(const TcpSocket& socket, const Hello& hello) {
  return ::send(socket.fd(), &hello, sizeof hello, MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(sizeof hello);
}

}  // namespace

Result<Poller> Poller::create() {
  const int fd = epoll_create1(EPOLL_CLOEXEC);
  if (fd < 0) {
    return Error{std::string("cannot create an epoll descriptor: ") + std::strerror(errno)};
  }
  return Poller(fd);
}

Poller::Poller(Poller&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Poller::~Poller() {
  if (fd_ >= 0) close(fd_);
}

void Poller::add(int fd, std::uint64_t id, std::uint32_t events) {
  epoll_event event{.events = events, .data = {.u64 = id}};
  epoll_ctl(fd_, EPOLL_CTL_ADD, fd, &event);
}

void Poller::change(int fd, std::uint64_t id, std::uint32_t events) {
  epoll_event event{.events = events, .data = {.u64 = id}};
  epoll_ctl(fd_, EPOLL_CTL_MOD, fd, &event);
}

void Poller::remove(int fd) { epoll_ctl(fd_, EPOLL_CTL_DEL, fd, nullptr); }

std::vector<Poller::Ready> Poller::wait(int timeout_ms) {
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(fd_, events.data(), events.size(), timeout_ms);
  std::vector<Ready> ready;
  ready.reserve(events.size());
  for (int i = 0; i < count; ++i) ready.push_back({events[i].data.u64, events[i].events});
  return ready;
}

PeerLinks::PeerLinks(const PeerOptions& options, std::shared_ptr<const TcpListener> listener,
                     std::vector<Endpoint> addresses, Poller& poller)
    : options_(options),
      listener_(std::move(listener)),
      closed_in_child_({listener_->socket().fd()}),
      addresses_(std::move(addresses)),
      poller_(poller),
      calls_(addresses_.size()) {
  poller_.add(listener_->socket().fd(), kListener, EPOLLIN);
}

std::string PeerLinks::name(std::size_t rank) const {
  return options_.wording.rank(rank) + " (" + to_string(addresses_[rank]) + ")";
}

Hello PeerLinks::hello(std::size_t from, std::size_t to) const {
  return {.purpose = Purpose::kPeer,
          .token = options_.token,
          .from = static_cast<std::uint32_t>(from),
          .to = static_cast<std::uint32_t>(to),
          .world_size = static_cast<std::uint32_t>(options_.world_size)};
}

void PeerLinks::want(std::size_t rank, SteadyTime now) {
  if (calls_[rank].state != State::kNone) return;
  calls_[rank].say_at = now + kLongWait;
  call(rank, now);
}

std::string PeerLinks::why_not(std::size_t rank) const {
  const Call& call = calls_[rank];
  if (!call.why.empty()) return call.why;
  if (call.state == State::kGreeting) return "it accepts the connection, and says nothing";
  return is_on_own_host(rank) ? "no answer" : "no answer: a firewall may drop connections to it";
}

void PeerLinks::say_what_is_missing(std::size_t rank) {
  calls_[rank].said = true;
  std::string text = options_.wording.rank(options_.rank) + " still has no connection with " +
                     name(rank) + ", neither has called the other with success (" + why_not(rank) +
                     ")";
  if (!is_on_own_host(rank)) {
    text +=
        "; a firewall must admit TCP in at least one direction: set ATP_PORT_RANGE, and open "
        "these ports";
  }
  if (options_.recorded != nullptr) options_.recorded->note(RecordedKind::kWaiting, text, {});
  options_.on_warning ? options_.on_warning(text)
                      : static_cast<void>(std::fprintf(stderr, "atp: %s\n", text.c_str()));
}

void PeerLinks::call(std::size_t rank, SteadyTime now) {
  Call& call = calls_[rank];
  Result<TcpSocket> begun = TcpSocket::begin_connect(addresses_[rank]);
  if (!begun) {
    const bool is_refused = begun.error().message == std::strerror(ECONNREFUSED);
    const bool is_second = call.state == State::kWaiting;
    if (is_refused && is_second && is_refused_for_good(call, rank, now)) {
      return give_up_calling(call, rank);
    }
    call_again(rank, begun.error().message, now);
    // Ask again at once: on this host the kernel refuses immediately.
    if (is_refused && !is_second) call.again_at = now;
    return;
  }
  call.socket = std::move(begun).value();
  call.state = State::kConnecting;
  call.answer_bytes = 0;
  poller_.add(call.socket.fd(), kCalls + rank, EPOLLOUT);
}

void PeerLinks::drop_call(Call& call) {
  if (!call.socket.is_open()) return;
  poller_.remove(call.socket.fd());
  call.socket.close();
}

// A refusal means that the rank is gone, as its listener existed before its address was known, or
// that a firewall is between the hosts.
bool PeerLinks::is_refused_for_good(Call& call, std::size_t rank, SteadyTime now) const {
  if (gone_) return false;  // one at a time
  if (is_on_own_host(rank)) return true;
  if (!call.refused_since) call.refused_since = now;
  return now >= *call.refused_since + kRefusals;
}

void PeerLinks::give_up_calling(Call& call, std::size_t rank) {
  gone_ = rank;
  drop_call(call);
  call.state = State::kNone;
}

void PeerLinks::call_again(std::size_t rank, const std::string& why, SteadyTime now) {
  Call& call = calls_[rank];
  drop_call(call);
  call.state = State::kWaiting;
  call.again_at = now + kBetweenCalls;
  call.why = why;
}

void PeerLinks::greet(std::size_t rank, SteadyTime now) {
  Call& call = calls_[rank];
  const int error = call.socket.connect_error();
  if (error == ECONNREFUSED && is_refused_for_good(call, rank, now)) {
    return give_up_calling(call, rank);
  }
  if (error != 0) return call_again(rank, std::strerror(error), now);
  if (!write_hello(call.socket, hello(options_.rank, rank))) {
    return call_again(rank, "it accepts no data", now);
  }
  call.state = State::kGreeting;
  poller_.change(call.socket.fd(), kCalls + rank, EPOLLIN);
}

void PeerLinks::hear_answer(std::size_t rank, SteadyTime now) {
  Call& call = calls_[rank];
  if (!read_hello(call.socket, call.answer, call.answer_bytes)) {
    return call_again(rank, kTurnedAway, now);
  }
  if (call.answer_bytes < sizeof(Hello)) return;
  if (call.answer != hello(rank, options_.rank)) {
    return call_again(rank, "something else answers there", now);
  }
  poller_.remove(call.socket.fd());
  open(rank, std::move(call.socket));
}

void PeerLinks::open(std::size_t rank, TcpSocket socket) {
  calls_[rank].state = State::kOpen;
  opened_.push_back({rank, std::move(socket)});
}

void PeerLinks::accept_guests(SteadyTime now) {
  while (true) {
    Result<TcpSocket> socket = listener_->socket().accept(SteadyTime{});
    if (!socket) return;
    if (guests_.size() >= kMaxGuests) continue;
    guests_.push_back({next_guest_++, std::move(socket).value(), now + kHelloTimeout, {}, 0});
    poller_.add(guests_.back().socket.fd(), kGuests + guests_.back().id, EPOLLIN);
  }
}

void PeerLinks::hear_guest(std::size_t index) {
  Guest& guest = guests_[index];
  const bool alive = read_hello(guest.socket, guest.said, guest.said_bytes);
  if (alive && guest.said_bytes < sizeof(Hello)) return;
  poller_.remove(guest.socket.fd());
  Guest taken = std::move(guest);
  guests_.erase(guests_.begin() + static_cast<std::ptrdiff_t>(index));
  if (alive) welcome(std::move(taken));
}

void PeerLinks::welcome(Guest guest) {
  const std::size_t from = guest.said.from;
  if (from >= options_.world_size || from == options_.rank ||
      guest.said != hello(from, options_.rank)) {
    return;
  }
  Call& own = calls_[from];
  if (own.state == State::kOpen) return;
  // Once the lower rank has said its Hello, its call counts: the other may have answered already.
  // Until then, any call that gets through does; perhaps only one direction is open.
  if (own.state == State::kGreeting && options_.rank < from) return;
  if (!write_hello(guest.socket, hello(options_.rank, from))) return;
  drop_call(own);
  open(from, std::move(guest.socket));
}

void PeerLinks::handle(const Poller::Ready& ready, SteadyTime now) {
  if (ready.id == kListener) return accept_guests(now);
  if (ready.id >= kGuests) {
    const auto guest = std::find_if(guests_.begin(), guests_.end(), [&](const Guest& each) {
      return each.id == ready.id - kGuests;
    });
    if (guest != guests_.end()) hear_guest(static_cast<std::size_t>(guest - guests_.begin()));
    return;
  }
  if (ready.id < kCalls) return;  // not a call or a guest
  const auto rank = static_cast<std::size_t>(ready.id - kCalls);
  // The events may include calls that were dropped in this round.
  if (calls_[rank].state == State::kConnecting) return greet(rank, now);
  if (calls_[rank].state == State::kGreeting) hear_answer(rank, now);
}

void PeerLinks::check_time(SteadyTime now) {
  for (std::size_t rank = 0; rank < calls_.size(); ++rank) {
    Call& call = calls_[rank];
    if (call.state == State::kWaiting && now >= call.again_at) this->call(rank, now);
    const bool is_missing = call.state != State::kNone && call.state != State::kOpen;
    if (is_missing && !call.said && now >= call.say_at) say_what_is_missing(rank);
  }
  std::erase_if(guests_, [&](const Guest& guest) {
    if (now < guest.until) return false;
    poller_.remove(guest.socket.fd());
    return true;
  });
}

std::optional<SteadyTime> PeerLinks::next_timeout() const {
  std::optional<SteadyTime> next;
  const auto consider = [&](SteadyTime time) { next = next ? std::min(*next, time) : time; };
  for (const Call& call : calls_) {
    if (call.state == State::kWaiting) consider(call.again_at);
    const bool is_missing = call.state != State::kNone && call.state != State::kOpen;
    if (is_missing && !call.said) consider(call.say_at);
  }
  for (const Guest& guest : guests_) consider(guest.until);
  return next;
}

}  // namespace atp
