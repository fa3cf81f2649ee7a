#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "atp/wire/packet.h"

// The offset of each field in a control message's body: the tables of docs/inside/protocol §3.1 and
// §3.2 in code, as ATP_AT_* are the header's. Code that writes, reads or (in the simulator)
// damages a body uses these names. The body begins after the bitmap.

namespace atp {

struct BodyField {
  std::uint8_t offset;
  std::uint8_t bytes;
};

namespace join_field {
inline constexpr BodyField kNonce{0, 8};
inline constexpr BodyField kServerBootId{8, 8};
inline constexpr BodyField kWorldSize{16, 2};
inline constexpr BodyField kFirstStream{18, 2};
inline constexpr BodyField kStreamCount{20, 2};
inline constexpr BodyField kMaxValueCount{22, 2};
inline constexpr BodyField kVersionMin{24, 1};
inline constexpr BodyField kVersionMax{25, 1};
inline constexpr BodyField kDetached{26, 1};
inline constexpr BodyField kNumberFormat{27, 1};
inline constexpr BodyField kDetachments{28, 4};
inline constexpr BodyField kRemainingHops{32, 1};
inline constexpr BodyField kRecordedHops{33, 1};
inline constexpr BodyField kReserved{34, 2};
inline constexpr BodyField kProof{36, 8};
inline constexpr std::size_t kRoutesAt = 44;  // endpoints: those remaining, then those recorded
// Zeros follow: a JOIN is as long as the longest answer to it, a STATUS with 16 bitmap words and
// eight endpoints, so an attacker who forges its source cannot use the answer for amplification.
inline constexpr std::size_t kEnd = 416;
}  // namespace join_field

namespace join_ack_field {
inline constexpr BodyField kNonce{0, 8};
inline constexpr BodyField kServerBootId{8, 8};
inline constexpr BodyField kScale{16, 8};
inline constexpr BodyField kDetachments{24, 4};
inline constexpr BodyField kLeaseMs{28, 4};
inline constexpr BodyField kWmax{32, 4};
inline constexpr BodyField kValueCount{36, 2};
inline constexpr BodyField kWorldSize{38, 2};
inline constexpr BodyField kFirstStream{40, 2};
inline constexpr BodyField kStreamCount{42, 2};
inline constexpr BodyField kDetached{44, 1};
inline constexpr BodyField kNumberFormat{45, 1};
inline constexpr BodyField kLinearAggregators{46, 2};
inline constexpr std::size_t kEnd = 48;
}  // namespace join_ack_field

namespace leave_field {
inline constexpr BodyField kNonce{0, 8};
inline constexpr std::size_t kCauseAt = 8;
inline constexpr std::size_t kEnd = 272;  // zero padding, as in JOIN: a STATUS with 16 words
}  // namespace leave_field

namespace status_field {
inline constexpr BodyField kCode{0, 2};
inline constexpr std::size_t kCodeEnd = 2;  // the whole body of *unknown job*
inline constexpr BodyField kReason{2, 2};
inline constexpr BodyField kEndpointCount{4, 2};
inline constexpr BodyField kCauseBytes{6, 2};
inline constexpr BodyField kNonce{8, 8};
// From here: the ranks concerned, other ranks (each as wide as the bitmap), endpoints, numbers, and
// the cause.
inline constexpr std::size_t kRanksAt = 16;
}  // namespace status_field

// Stores a member in its field: numbers of any size, bool, enums and double.
class FieldWriter {
 public:
  explicit FieldWriter(std::uint8_t* body) : body_(body) {}

  template <class T>
  void operator()(BodyField field, const T& value) const {
    std::uint8_t* at = body_ + field.offset;
    if constexpr (std::is_same_v<T, double>) {
      atp_store64(at, std::bit_cast<std::uint64_t>(value));
    } else if constexpr (sizeof(T) == 8) {
      atp_store64(at, value);
    } else if constexpr (sizeof(T) == 4) {
      atp_store32(at, value);
    } else if constexpr (sizeof(T) == 2) {
      atp_store16(at, static_cast<std::uint16_t>(value));
    } else {
      *at = static_cast<std::uint8_t>(value);
    }
  }

 private:
  std::uint8_t* body_;
};

// Loads a member from its field. An invalid value of a bool or an enum makes the whole body
// unreadable; each message checks the ranges of its numbers itself.
class FieldReader {
 public:
  explicit FieldReader(const std::uint8_t* body) : body_(body) {}
  bool ok() const { return ok_; }

  template <class T>
  void operator()(BodyField field, T& value) {
    const std::uint8_t* at = body_ + field.offset;
    if constexpr (std::is_same_v<T, bool>) {
      ok_ = ok_ && *at <= 1;
      value = *at != 0;
    } else if constexpr (std::is_enum_v<T>) {
      const std::uint16_t number = sizeof(T) == 2 ? atp_load16(at) : *at;
      ok_ = ok_ && number < static_cast<std::uint16_t>(T::kCount);
      value = static_cast<T>(number);
    } else if constexpr (std::is_same_v<T, double>) {
      value = std::bit_cast<double>(atp_load64(at));
    } else if constexpr (sizeof(T) == 8) {
      value = atp_load64(at);
    } else if constexpr (sizeof(T) == 4) {
      value = atp_load32(at);
    } else if constexpr (sizeof(T) == 2) {
      value = atp_load16(at);
    } else {
      value = *at;
    }
  }

 private:
  const std::uint8_t* body_;
  bool ok_ = true;
};

}  // namespace atp
