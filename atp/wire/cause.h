#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace atp {

// A rank's words for people: why it left, for the other ranks' error messages, or what it calls the
// operation that waits, for the displays of servers and switches. It is the last field of LEAVE and
// of STATUS (docs/inside/protocol §3.1). Users see this text although it comes from the network, so
// both sides replace everything but printable ASCII with a question mark, and cut it at kMaxBytes.
class CauseText {
 public:
  static constexpr std::size_t kMaxBytes = 200;

  CauseText() = default;
  explicit CauseText(std::string_view text)
      : size_(static_cast<std::uint8_t>(std::min(text.size(), kMaxBytes))) {
    std::transform(text.begin(), text.begin() + size_, bytes_.begin(), printable);
  }
  static CauseText read(std::span<const std::uint8_t> bytes) {
    return CauseText({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  void write(std::uint8_t* at) const { std::memcpy(at, bytes_.data(), size_); }

  std::string_view view() const { return {bytes_.data(), size_}; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool operator==(const CauseText&) const = default;

 private:
  static char printable(char byte) { return byte >= ' ' && byte <= '~' ? byte : '?'; }

  std::array<char, kMaxBytes> bytes_{};
  std::uint8_t size_ = 0;
};

}  // namespace atp
