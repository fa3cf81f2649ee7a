#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace atp {

// Writes Python's pickle format, protocol 2: dictionaries, lists, pairs, texts and numbers, without
// anything that would run code when it is read. Between begin_dict() and end_dict(), keys and
// values alternate.
class PickleWriter {
 public:
  PickleWriter() { bytes_ += "\x80\x02"; }

  void begin_dict() { bytes_ += "}("; }
  void end_dict() { bytes_ += 'u'; }
  void begin_list() { bytes_ += "]("; }
  void end_list() { bytes_ += 'e'; }
  void end_pair() { bytes_ += '\x86'; }  // of the last two values

  void none() { bytes_ += 'N'; }
  void boolean(bool value) { bytes_ += value ? '\x88' : '\x89'; }
  void integer(std::int64_t value) {
    if (value >= INT32_MIN && value <= INT32_MAX) {
      bytes_ += 'J';
      little_endian(static_cast<std::uint64_t>(value), 4);
    } else {
      bytes_ += "\x8a\x08";
      little_endian(static_cast<std::uint64_t>(value), 8);
    }
  }
  void real(double value) {
    bytes_ += 'G';
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (int shift = 56; shift >= 0; shift -= 8) bytes_ += static_cast<char>(bits >> shift);
  }
  // Anything but printable ASCII becomes a question mark: a text may have been cut within a
  // character.
  void text(std::string_view value) {
    bytes_ += 'X';
    little_endian(value.size(), 4);
    for (const char each : value) bytes_ += each >= ' ' && each <= '~' ? each : '?';
  }

  std::string finish() && {
    bytes_ += '.';
    return std::move(bytes_);
  }

 private:
  void little_endian(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes_ += static_cast<char>(value >> (8 * i));
  }

  std::string bytes_;
};

}  // namespace atp
