#include "atp/config/text/plain_text.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace atp {
namespace {

// The first code point of a text; length 0 if it is malformed.
struct Letter {
  std::size_t length = 0;
  std::uint32_t code = 0;
};

std::size_t length_of(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead < 0xe0) return 2;
  if (lead >= 0xe0 && lead < 0xf0) return 3;
  return lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
}

Letter first_letter(std::string_view text) {
  constexpr std::array<std::uint32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = length_of(lead);
  if (length == 0 || length > text.size()) return {};
  std::uint32_t code = length == 1 ? lead : lead & (0x7fu >> length);
  for (const char c : text.substr(1, length - 1)) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xc0) != 0x80) return {};
    code = code << 6 | (byte & 0x3f);
  }
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  if (code < kLeast.at(length) || is_surrogate || code > 0x10ffff) return {};
  return {length, code};
}

// C0, DEL and C1: terminals interpret all of them. Separators of lines, and what turns the
// direction of a line, so that it reads as another one. XML forbids U+FFFE and U+FFFF.
bool is_control(std::uint32_t code) {
  const bool breaks_or_turns = (code >= 0x2028 && code <= 0x202e) || code == 0x200e ||
                               code == 0x200f || (code >= 0x2066 && code <= 0x2069);
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || breaks_or_turns;
}
bool is_plain_code(std::uint32_t code) {
  return !is_control(code) && code != 0xfffe && code != 0xffff;
}

}  // namespace

bool is_plain(std::string_view text) {
  while (!text.empty()) {
    const Letter letter = first_letter(text);
    if (letter.length == 0 || !is_plain_code(letter.code)) return false;
    text.remove_prefix(letter.length);
  }
  return true;
}

std::string made_plain(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Letter letter = first_letter(text);
    if (letter.length > 0 && is_plain_code(letter.code)) {
      out += text.substr(0, letter.length);
    } else {
      out += letter.length > 0 && is_control(letter.code) ? ' ' : '?';
    }
    text.remove_prefix(letter.length > 0 ? letter.length : 1);
  }
  return out;
}

}  // namespace atp
