#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "atp/collective/peer/frame.h"
#include "atp/driver/tcp/tcp_socket.h"
#include "fuzz/input.h"

// Connections between ranks, with the fuzzer in the middle.

namespace atp::fuzz {

// One direction of a connection: passes what one end has sent to the other.
class Direction {
 public:
  Direction(int from, int to) : from_(from), to_(to) {}

  void take() {
    static std::array<char, 1 << 18> buffer;
    const ssize_t got = recv(from_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got > 0) held_.append(buffer.data(), static_cast<std::size_t>(got));
    has_ended_ = has_ended_ || got == 0;
  }
  bool give(std::size_t most) {
    if (held_.empty()) {
      if (has_ended_) shutdown(to_, SHUT_WR);
      return false;
    }
    const ssize_t put =
        send(to_, held_.data(), std::min(most, held_.size()), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put <= 0) return false;
    note_passed(std::string_view(held_).substr(0, static_cast<std::size_t>(put)));
    held_.erase(0, static_cast<std::size_t>(put));
    return true;
  }
  // Changes a byte, or inserts a word of 32 bits or a frame.
  void tamper(Input& input) {
    take();
    const std::uint8_t how = input.byte();
    const std::uint8_t at = input.byte();
    if (how >= 128 && left_ == 0 && head_.empty()) return forge(how, at, input.byte());
    if (how < 96 && !held_.empty()) {
      held_[at % held_.size()] = static_cast<char>(input.byte());
    } else {
      const std::uint32_t word = input.byte() << (how % 24);
      held_.insert(at % (held_.size() + 1), reinterpret_cast<const char*>(&word), sizeof word);
    }
  }

 private:
  // Follows the frames, to know where the next one begins.
  void note_passed(std::string_view bytes) {
    while (!bytes.empty()) {
      std::size_t count = std::min<std::size_t>(left_, bytes.size());
      left_ -= count;
      if (count == 0) {
        count = std::min(sizeof last_ - head_.size(), bytes.size());
        head_ += bytes.substr(0, count);
        if (head_.size() == sizeof last_) {
          std::memcpy(&last_, head_.data(), sizeof last_);
          left_ = last_.length;
          head_.clear();
        }
      }
      bytes.remove_prefix(count);
    }
  }
  // Sends the last frame again, with another kind or field.
  void forge(std::uint8_t how, std::uint8_t what, std::uint8_t value) {
    constexpr std::array<std::uint64_t, 8> kSizes{0, 1, 8, 56, 4096, 65536, 1 << 20, ~0ULL};
    const std::uint64_t size = value < 128 ? value : kSizes[value % kSizes.size()];
    Frame frame = last_;
    if (how % 2 == 0) frame.kind = static_cast<Frame::Kind>(1 + how / 2 % 11);
    switch (what % 10) {
      case 0: frame.call = static_cast<Collective>(value % 14); break;
      case 1: frame.type = value; break;
      case 2: frame.reduction = static_cast<ElementReduction>(value); break;
      case 3: frame.root = static_cast<std::uint32_t>(size); break;
      case 4: frame.part = static_cast<std::uint32_t>(size); break;
      case 5: frame.number = size; break;
      case 6: frame.total = size; break;
      case 7: frame.bytes = size; break;
      case 8: frame.offset = size; break;
      default: frame.length = frame.bytes = size; break;
    }
    std::string bytes(reinterpret_cast<const char*>(&frame), sizeof frame);
    bytes.append(std::min<std::uint64_t>(frame.length, 1 << 17), '\x1b');
    held_.insert(0, bytes);
  }

  int from_;
  int to_;
  std::string held_;
  bool has_ended_ = false;
  std::string head_;        // of the frame that is being passed
  std::uint64_t left_ = 0;  // bytes that follow the last head
  Frame last_;
};

// A connection between two ranks. The first sockets of `near` and `far` are theirs.
struct Wire {
  static std::array<TcpSocket, 2> make_pair() {
    std::array<int, 2> fds{-1, -1};
    static_cast<void>(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()));
    return {TcpSocket(fds[0]), TcpSocket(fds[1])};
  }

  std::array<TcpSocket, 2> near = make_pair();
  std::array<TcpSocket, 2> far = make_pair();
  Direction forth{near[1].fd(), far[1].fd()};
  Direction back{far[1].fd(), near[1].fd()};

  void cut() {
    near[1].close();
    far[1].close();
  }
};

}  // namespace atp::fuzz
