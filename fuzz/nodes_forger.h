#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "atp/wire/packet.h"
#include "fuzz/input.h"

// Changes one field of an honest packet, which gets further than noise.

namespace atp::fuzz {

struct Field {
  std::size_t offset;
  std::size_t width;
};
inline constexpr std::array kFields{Field{ATP_AT_VERSION, 1},   Field{ATP_AT_TYPE, 1},
                                    Field{ATP_AT_FLAGS, 1},     Field{ATP_AT_BITMAP_WORDS, 1},
                                    Field{ATP_AT_JOB, 4},       Field{ATP_AT_INCARNATION, 4},
                                    Field{ATP_AT_STREAM, 2},    Field{ATP_AT_VALUE_COUNT, 2},
                                    Field{ATP_AT_SEQUENCE, 8},  Field{ATP_AT_AGGREGATOR_INDEX, 4},
                                    Field{ATP_AT_OPERATION, 4}, Field{ATP_AT_MAGNITUDE, 4},
                                    Field{ATP_AT_KIND, 1},      Field{ATP_AT_HOPS, 1},
                                    Field{ATP_AT_TAG_WORDS, 1}, Field{ATP_AT_BITMAP, 8}};

// Sets a header field or changes it a little, or changes a byte after the header, or cuts the end
// off.
inline void change(std::vector<std::uint8_t>& bytes, Input& input) {
  const std::uint8_t which = input.byte();
  const std::uint8_t value = input.byte();
  if (bytes.empty()) return;
  if (which == 255) {
    bytes.resize(value % bytes.size() + 1);
  } else if (which >= 128 || bytes.size() < ATP_HEADER_BYTES + 8) {
    constexpr std::size_t kBehind = ATP_HEADER_BYTES;
    const std::size_t at = bytes.size() > kBehind ? kBehind + which % (bytes.size() - kBehind) : 0;
    bytes[at] = value;
  } else {
    const Field field = kFields[which % kFields.size()];
    std::uint8_t& last = bytes[field.offset + field.width - 1];
    last = static_cast<std::uint8_t>(which < 64 ? value : last + value % 16 - 8);
    if (which >= 96) bytes[field.offset] = value;
  }
}

}  // namespace atp::fuzz
