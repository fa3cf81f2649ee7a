#include "atp/sim/control_forgery.h"

#include <array>
#include <span>

#include "atp/wire/control.h"

namespace atp::sim {
namespace {

struct Field {
  std::size_t offset;
  std::size_t width;
};

constexpr std::array kJoinFields{Field{0, 8},  Field{8, 8},  Field{16, 2},  Field{18, 2},
                                 Field{20, 2}, Field{22, 2}, Field{24, 1},  Field{25, 1},
                                 Field{26, 1}, Field{27, 1}, Field{28, 4},  Field{32, 1},
                                 Field{33, 1}, Field{34, 2}, Field{36, 18}, Field{54, 18}};
constexpr std::array kJoinAckFields{Field{0, 8},  Field{8, 8},  Field{16, 8}, Field{24, 4},
                                    Field{28, 4}, Field{32, 4}, Field{36, 2}, Field{38, 2},
                                    Field{40, 2}, Field{42, 2}, Field{44, 1}, Field{45, 1},
                                    Field{46, 2}};
constexpr std::array kLeaveFields{Field{0, 8}};
constexpr std::array kStatusFields{Field{0, 2},  Field{2, 2},   Field{4, 2},
                                   Field{6, 2},  Field{8, 8},   Field{16, 8},
                                   Field{24, 8}, Field{32, 18}, Field{32, 4}};

// A value that the field must not have.
struct Outlaw {
  std::size_t offset;
  std::size_t width;
  std::uint64_t value;
};

constexpr std::array kJoinOutlaws{
    Outlaw{16, 2, 0}, Outlaw{16, 2, kMaxRanks + 1},       Outlaw{20, 2, 0},
    Outlaw{22, 2, 0}, Outlaw{22, 2, ATP_VALUES_MAX + 1},  Outlaw{26, 1, 2},
    Outlaw{27, 1, 2}, Outlaw{32, 1, Route::kMaxHops + 1}, Outlaw{33, 1, 255}};
constexpr std::array kJoinAckOutlaws{Outlaw{16, 8, 0},
                                     Outlaw{28, 4, 0},
                                     Outlaw{32, 4, 0},
                                     Outlaw{32, 4, 65537},
                                     Outlaw{36, 2, 0},
                                     Outlaw{38, 2, 0},
                                     Outlaw{42, 2, 0},
                                     Outlaw{44, 1, 2},
                                     Outlaw{38, 2, kMaxRanks + 1},
                                     Outlaw{36, 2, ATP_VALUES_MAX + 1}};
constexpr std::array kStatusOutlaws{
    Outlaw{0, 2, static_cast<std::uint64_t>(StatusCode::kCount)}, Outlaw{0, 2, 0xffff},
    Outlaw{4, 2, StatusMessage::kMaxEndpoints + 1}, Outlaw{4, 2, 0xffff}};

std::span<const Field> fields_of(std::uint8_t type) {
  switch (type) {
    case ATP_JOIN: return kJoinFields;
    case ATP_JOIN_ACK: return kJoinAckFields;
    case ATP_LEAVE: return kLeaveFields;
    case ATP_STATUS: return kStatusFields;
    default: return {};
  }
}

std::span<const Outlaw> outlaws_of(std::uint8_t type) {
  switch (type) {
    case ATP_JOIN: return kJoinOutlaws;
    case ATP_JOIN_ACK: return kJoinAckOutlaws;
    case ATP_STATUS: return kStatusOutlaws;
    default: return {};
  }
}

// The place of a part of the body; empty if the packet is too short.
std::span<std::uint8_t> place(PacketBytes& bytes, std::size_t offset, std::size_t width) {
  const std::size_t at = atp_body_offset(bytes[ATP_AT_BITMAP_WORDS]) + offset;
  return at + width <= bytes.size() ? std::span(bytes).subspan(at, width)
                                    : std::span<std::uint8_t>{};
}

void put(std::span<std::uint8_t> at, std::uint64_t value) {
  for (std::size_t i = at.size(); i-- > 0; value >>= 8) at[i] = static_cast<std::uint8_t>(value);
}

// Numbers near the edges of what a field may hold, where a careless sum or product would end.
std::uint64_t telling_value(Random& random) {
  constexpr std::array<std::uint64_t, 13> kValues{
      0, 1, 2, 3, 8, 64, 65, 1024, 1025, 0x7fff, 0xffff, 0xffffffff, ~std::uint64_t{0}};
  return kValues[random.below(kValues.size())];
}

}  // namespace

bool is_control(const PacketBytes& bytes) {
  return bytes.size() >= ATP_HEADER_BYTES && !fields_of(bytes[ATP_AT_TYPE]).empty();
}

void change_body_field(PacketBytes& bytes, Random& random) {
  if (!is_control(bytes)) return;
  const std::span<const Field> fields = fields_of(bytes[ATP_AT_TYPE]);
  const Field field = fields[random.below(fields.size())];
  const std::span<std::uint8_t> at = place(bytes, field.offset, field.width);
  if (random.chance(0.5)) return put(at, telling_value(random));
  for (std::uint8_t& byte : at) {
    byte = random.chance(0.5) ? static_cast<std::uint8_t>(random.next())
                              : static_cast<std::uint8_t>(byte ^ (1U << random.below(8)));
  }
}

void make_body_unreadable(PacketBytes& bytes, Random& random) {
  const std::span<const Outlaw> outlaws =
      is_control(bytes) ? outlaws_of(bytes[ATP_AT_TYPE]) : std::span<const Outlaw>{};
  if (outlaws.empty()) {
    bytes.push_back(0);
    return;
  }
  const Outlaw& outlaw = outlaws[random.below(outlaws.size())];
  put(place(bytes, outlaw.offset, outlaw.width), outlaw.value);
}

void forget_nonce(PacketBytes& bytes, Random& random) {
  if (!is_control(bytes)) return;
  put(place(bytes, bytes[ATP_AT_TYPE] == ATP_STATUS ? 8 : 0, 8), random.next());
}

PacketBytes leave_of(const PacketBytes& join) {
  PacketBytes leave = join;
  leave[ATP_AT_TYPE] = ATP_LEAVE;
  leave.resize(atp_body_offset(leave[ATP_AT_BITMAP_WORDS]) + Leave::kBytes);
  return leave;
}

}  // namespace atp::sim
