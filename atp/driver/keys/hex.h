#pragma once

#include <charconv>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

// Bytes as hexadecimal digits, two each: keys in files and in texts between ranks.

namespace atp {

inline std::string to_hex(std::span<const std::uint8_t> bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

// False if the text is not exactly that many bytes.
inline bool read_hex(std::string_view text, std::span<std::uint8_t> bytes) {
  if (text.size() != 2 * bytes.size()) return false;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char* at = text.data() + 2 * i;
    const auto [end, problem] = std::from_chars(at, at + 2, bytes[i], 16);
    if (problem != std::errc{} || end != at + 2) return false;
  }
  return true;
}

}  // namespace atp
