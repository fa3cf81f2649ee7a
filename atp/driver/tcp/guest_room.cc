#include "atp/driver/tcp/guest_room.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace atp {
namespace {

// How long a stranger may occupy a descriptor.
constexpr std::chrono::seconds kHelloTimeout{2};

}  // namespace

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

bool write_hello(const TcpSocket& socket, const Hello& hello) {
  return ::send(socket.fd(), &hello, sizeof hello, MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(sizeof hello);
}

GuestRoom::GuestRoom(const TcpListener& listener, const std::string& whom, Poller& poller,
                     std::uint64_t listener_id, std::uint64_t guest_ids)
    : poller_(poller),
      listener_id_(listener_id),
      guest_ids_(guest_ids),
      acceptor_(listener.socket().fd(), "connections to " + whom) {
  listen(std::chrono::steady_clock::now());
}

GuestRoom::~GuestRoom() {
  if (listens_) poller_.remove(acceptor_.listener());
}

void GuestRoom::listen(SteadyTime now) {
  listens_ = poller_.add(acceptor_.listener(), listener_id_, EPOLLIN);
  if (!listens_) acceptor_.rest(now, errno);
}

void GuestRoom::handle(std::uint64_t id, SteadyTime now, const Welcome& welcome) {
  if (id == listener_id_) return accept(now, welcome);
  const auto guest = std::find_if(guests_.begin(), guests_.end(),
                                  [&](const Guest& each) { return each.id == id; });
  if (guest != guests_.end()) hear(static_cast<std::size_t>(guest - guests_.begin()), welcome);
}

void GuestRoom::accept(SteadyTime now, const Welcome& welcome) {
  for (int i = 0; i < Acceptor::kAtOnce; ++i) {
    TcpSocket socket(acceptor_.take(now));
    if (!socket.is_open()) break;
    socket.send_at_once();
    const std::uint64_t id = guest_ids_ + next_guest_++;
    if (!poller_.add(socket.fd(), id, EPOLLIN)) {
      acceptor_.rest(now, errno);
      break;
    }
    acceptor_.make_room(guests_, now, [this](Guest& guest) { leave(guest); });
    guests_.push_back({id, std::move(socket), now + kHelloTimeout, {}, 0});
    hear(guests_.size() - 1, welcome);  // usually it has said its Hello by now
  }
  if (acceptor_.listens(now)) return;
  poller_.remove(acceptor_.listener());
  listens_ = false;
}

void GuestRoom::hear(std::size_t index, const Welcome& welcome) {
  Guest& guest = guests_[index];
  const bool alive = read_hello(guest.socket, guest.said, guest.said_bytes);
  if (alive && guest.said_bytes < sizeof(Hello)) return;
  leave(guest);
  Guest taken = std::move(guest);
  guests_.erase(guests_.begin() + static_cast<std::ptrdiff_t>(index));
  if (alive) welcome(std::move(taken.socket), taken.said);
}

// Closing the socket is not enough: a forked child may still have it, and then the poller would
// report it for ever.
void GuestRoom::leave(const Guest& guest) { poller_.remove(guest.socket.fd()); }

void GuestRoom::check_time(SteadyTime now) {
  std::erase_if(guests_, [&](const Guest& guest) {
    if (now < guest.until) return false;
    leave(guest);
    return true;
  });
  if (!listens_ && acceptor_.listens(now)) listen(now);
}

std::optional<SteadyTime> GuestRoom::next_timeout() const {
  std::optional<SteadyTime> next;
  if (!guests_.empty()) next = guests_.front().until;
  if (!listens_) next = std::min(next.value_or(SteadyTime::max()), acceptor_.rests_until());
  return next;
}

}  // namespace atp
