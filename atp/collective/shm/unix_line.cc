// Unix sockets of messages (SOCK_SEQPACKET) with time-outs, and descriptors passed over them.
#include "atp/collective/shm/unix_line.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "atp/base/errno_text.h"

namespace atp {
namespace {

// Precedes each text, so that no message is empty: an empty message would look like the end.
constexpr char kMark = '!';
constexpr char kNoteMark = '?';

Error failed(const char* what) { return {std::string(what) + ": " + errno_text(errno)}; }

struct Name {
  explicit Name(const std::string& text) {
    address.sun_family = AF_UNIX;
    const std::size_t length = std::min(text.size(), sizeof address.sun_path - 1);
    std::memcpy(address.sun_path + 1, text.data(), length);  // after a zero: abstract
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  sockaddr_un address{};
  socklen_t size = 0;
};

int milliseconds_until(UnixLine::Time until) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30));
}

}  // namespace

UnixLine::~UnixLine() {
  if (descriptor_ >= 0) close(descriptor_);
}

UnixLine::UnixLine(UnixLine&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

UnixLine& UnixLine::operator=(UnixLine&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Result<UnixLine> UnixLine::make() {
  UnixLine line(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!line.is_open()) return failed("cannot create a Unix socket");
  return line;
}

Result<UnixLine> UnixLine::listen(const std::string& name) {
  Result<UnixLine> line = make();
  if (!line) return line;
  const Name at(name);
  const int descriptor = line.value().descriptor_;
  if (bind(descriptor, at.get(), at.size) != 0 || ::listen(descriptor, kBacklog) != 0) {
    return failed(("cannot listen on the abstract Unix socket " + name).c_str());
  }
  return line;
}

Result<std::size_t> UnixLine::first_ready(std::span<const UnixLine* const> lines,
                                          const Patience& patience) {
  std::vector<pollfd> waited;
  waited.reserve(lines.size());
  for (const UnixLine* line : lines) waited.push_back({line->descriptor_, POLLIN, 0});
  for (;;) {
    const int left = milliseconds_until(patience.until);
    const int slice = std::min(left, static_cast<int>(kBetweenInterruptChecks.count()));
    const int ready = poll(waited.data(), waited.size(), slice);
    if (ready < 0 && errno != EINTR) return failed("cannot poll a Unix socket");
    for (std::size_t i = 0; ready > 0 && i < waited.size(); ++i) {
      if (waited[i].revents != 0) return i;
    }
    if (left == 0) return Error{"no message arrived in time"};
    if (const auto why = why_interrupted(patience.interruption)) return Error{*why};
  }
}

Status UnixLine::wait_readable(const Patience& patience) const {
  const Result<std::size_t> ready = first_ready(std::array{this}, patience);
  return ready ? ok_status() : Status(ready.error());
}

Result<UnixLine> UnixLine::accept() const {
  UnixLine line(accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC));
  if (!line.is_open()) return failed("cannot accept a connection on a Unix socket");
  return line;
}

Status UnixLine::call(const std::string& name, Time until) const {
  // The listener's queue may be full. Asking again lets the caller see why its wait must end.
  const auto most = static_cast<int>(kBetweenInterruptChecks.count());
  const int left = std::clamp(milliseconds_until(until), 1, most);
  const timeval timeout{.tv_sec = 0, .tv_usec = left * 1000};
  setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  const Name at(name);
  if (connect(descriptor_, at.get(), at.size) != 0) {
    return failed(("no process listens on the abstract Unix socket " + name).c_str());
  }
  return ok_status();
}

bool UnixLine::is_of_this_user() const {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(descriptor_, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == geteuid();
}

Status UnixLine::send(std::span<const std::byte> message) const {
  if (::send(descriptor_, message.data(), message.size(), MSG_NOSIGNAL) < 0) {
    return failed("cannot send on a Unix socket");
  }
  return ok_status();
}

Result<std::size_t> UnixLine::receive(std::span<std::byte> to, const Patience& patience) const {
  const Status ready = wait_readable(patience);
  if (!ready) return ready.error();
  const ssize_t got = recv(descriptor_, to.data(), to.size(), 0);
  if (got < 0) return failed("cannot receive from a Unix socket");
  if (got == 0) return Error{"its process has ended"};
  return static_cast<std::size_t>(got);
}

Status UnixLine::say(const std::string& text) const {
  const std::string message = kMark + text;
  return send(std::as_bytes(std::span(message)));
}

Result<std::string> UnixLine::hear(std::size_t longest, const Patience& patience) const {
  std::string text(longest + 1, '\0');
  const auto got = receive(std::as_writable_bytes(std::span(text)), patience);
  if (!got) return got.error();
  text.resize(got.value());
  return text.substr(1);
}

void UnixLine::note(const std::string& text) const {
  int unread = 0;
  if (ioctl(descriptor_, SIOCOUTQ, &unread) != 0 || unread != 0) return;
  const std::string message = kNoteMark + text;
  static_cast<void>(
      ::send(descriptor_, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

Status UnixLine::pass(int descriptor) const {
  char mark = kMark;
  iovec part{&mark, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
  }
  if (sendmsg(descriptor_, &message, MSG_NOSIGNAL) < 0)
    return failed("cannot pass a descriptor over a Unix socket");
  return ok_status();
}

Result<UnixLine::Passed> UnixLine::take(std::size_t longest, const Patience& patience) const {
  const Status ready = wait_readable(patience);
  if (!ready) return ready.error();
  std::string text(longest + 1, '\0');
  iovec part{text.data(), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = recvmsg(descriptor_, &message, MSG_CMSG_CLOEXEC);
  if (got < 0) return failed("cannot receive from a Unix socket");
  if (got == 0) return Error{"its process has ended"};
  Passed passed{.text = text.substr(1, static_cast<std::size_t>(got) - 1),
                .is_note = text.front() == kNoteMark};
  const cmsghdr* head = CMSG_FIRSTHDR(&message);
  if (head != nullptr && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
    std::memcpy(&passed.descriptor, CMSG_DATA(head), sizeof passed.descriptor);
  }
  return passed;
}

}  // namespace atp
