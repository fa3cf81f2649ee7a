#include "atp/collective/ring/messages.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace atp {
namespace {

constexpr std::size_t kLongestText = 4096;

struct Head {
  Message::Kind kind = Message::Kind::kHere;
  std::uint32_t length = 0;
};

// Text from the network is shown to users, so it must not contain terminal control characters.
std::string shown(std::string text) {
  for (char& byte : text) {
    if (byte < ' ' || byte > '~') byte = '?';
  }
  return text;
}

}  // namespace

void MessageLine::send(const Message& message) {
  if (closed_) return;
  const std::string text = message.text.substr(0, kLongestText);
  const Head head{message.kind, static_cast<std::uint32_t>(text.size())};
  std::string bytes(sizeof head, '\0');
  std::memcpy(bytes.data(), &head, sizeof head);
  bytes += text;
  const ssize_t sent =
      ::send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  // Shut down only this direction, so that messages already received are not lost.
  if (sent != static_cast<ssize_t>(bytes.size())) shutdown(socket_.fd(), SHUT_WR);
}

void MessageLine::read() {
  std::array<char, 1024> buffer;
  while (!closed_) {
    const ssize_t got = recv(socket_.fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got > 0) {
      unread_.append(buffer.data(), static_cast<std::size_t>(got));
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      closed_ = true;
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

bool MessageLine::cut_message(std::vector<Message>& messages) {
  Head head;
  if (unread_.size() < sizeof head) return false;
  std::memcpy(&head, unread_.data(), sizeof head);
  if (head.length > kLongestText) closed_ = true;
  if (head.length > kLongestText || unread_.size() < sizeof head + head.length) return false;
  messages.push_back({head.kind, shown(unread_.substr(sizeof head, head.length))});
  unread_.erase(0, sizeof head + head.length);
  return true;
}

std::vector<Message> MessageLine::receive() {
  std::vector<Message> messages;
  read();
  while (cut_message(messages)) {
  }
  return messages;
}

}  // namespace atp
