#include "atp/driver/tcp/acceptor.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

namespace atp {
namespace {

constexpr std::size_t kMostGuests = 64;
constexpr std::size_t kFewestGuests = 2;
// All guests of the process together may have this part of its descriptors.
constexpr std::size_t kShare = 8;

std::atomic<std::size_t> acceptors{0};

std::size_t most_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 1 << 20;
  return static_cast<std::size_t>(limit.rlim_cur);
}

// Of the connection that was to be accepted, not of the listener: the next one may be good. Linux
// also reports the network's errors here.
bool concerns_one_connection(int error) {
  switch (error) {
    case ECONNABORTED:
    case EINTR:
    case EPERM:
    case EPROTO:
    case ENOPROTOOPT:
    case EOPNOTSUPP:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET: return true;
    default: return false;
  }
}

std::string advice(int error) {
  if (error == EMFILE) {
    return "raise this process's limit of open files (ulimit -n, now " +
           std::to_string(most_descriptors()) + ")";
  }
  if (error == ENFILE) return "raise the machine's limit of open files (sysctl fs.file-max)";
  if (error == ENOMEM || error == ENOBUFS) return "this machine is short of memory";
  return "restart this process if that does not end";
}

std::string times_text(std::uint64_t times) {
  return times == 1 ? "once" : std::to_string(times) + " times";
}

}  // namespace

Acceptor::Acceptor(int listener, std::string what, Accept accept)
    : listener_(listener), what_(std::move(what)), accept_(std::move(accept)) {
  ++acceptors;
}

Acceptor::~Acceptor() { --acceptors; }

int Acceptor::accept_without_waiting(int listener) {
  return accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

int Acceptor::take(SteadyTime now) {
  if (!listens(now)) return -1;
  for (int i = 0; i < kAtOnce; ++i) {
    const int descriptor = accept_(listener_);
    if (descriptor >= 0) return descriptor;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return -1;
    if (!concerns_one_connection(errno)) {
      rest(now, errno);
      return -1;
    }
  }
  return -1;
}

void Acceptor::rest(SteadyTime now, int error) {
  rests_until_ = now + kRest;
  if (!is_time_to_tell(refused_, now)) return;
  news_ = "cannot accept " + what_ + " (" + times_text(std::exchange(refused_.times, 0)) +
          "): " + std::strerror(error) + ": " + advice(error);
}

std::size_t Acceptor::most_guests() const {
  const std::size_t all = most_descriptors() / kShare;
  return std::clamp(all / std::max<std::size_t>(acceptors, 1), kFewestGuests, kMostGuests);
}

void Acceptor::note(Trouble& crowd, std::size_t most, SteadyTime now) {
  if (!is_time_to_tell(crowd, now)) return;
  news_ = "more than " + std::to_string(most) + (&crowd == &streams_ ? " streams" : "") + " of " +
          what_ + " are open at once: closing the oldest (" +
          times_text(std::exchange(crowd.times, 0)) + "); find out who opens them (ss -tn)";
}

bool Acceptor::is_time_to_tell(Trouble& trouble, SteadyTime now) {
  ++trouble.times;
  if (news_) return false;  // nobody has taken that yet
  if (trouble.told_at && now - *trouble.told_at < kBetweenNews) return false;
  trouble.told_at = now;
  return true;
}

}  // namespace atp
