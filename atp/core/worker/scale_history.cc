#include "atp/core/worker/scale_history.h"

#include <algorithm>
#include <cmath>

#include "atp/base/check.h"
#include "atp/wire/packet.h"

namespace atp {
namespace {

// A quarter of an int32's range: two doublings of the gradients pass before a fragment overflows.
constexpr double kTarget = 0x1p29;

// Kinds that differ in size may share a history (all buckets of one length, say). A scale that rose
// after each small one would overflow at the next large one, so it rises only after a row of them.
constexpr int kRiseAfter = 8;

// With more room than this a result has hardly any digits, or none at all, and tells little of how
// small the values are.
constexpr int kMuchRoom = 15;

// float32 reaches from 2^-149 to 2^128.
constexpr int kMinExponent = -128;
constexpr int kMaxExponent = 178;

std::uint32_t hash_of(const OperationSpec& spec) {
  const std::uint32_t parts[] = {static_cast<std::uint32_t>(spec.count),
                                 static_cast<std::uint32_t>(spec.count >> 32),
                                 static_cast<std::uint32_t>(spec.reduction), spec.tag};
  std::uint32_t hash = 0;
  for (const std::uint32_t part : parts) hash = atp_fmix32(hash ^ part) + 0x9e3779b9U;
  return hash;
}

}  // namespace

std::uint32_t ScaleHistory::kind_of(const OperationSpec& spec) {
  const auto home = static_cast<std::uint32_t>(hash_of(spec) % kinds_.size());
  for (std::uint32_t i = 0; i < kinds_.size(); ++i) {
    const auto at = static_cast<std::uint32_t>((home + i) % kinds_.size());
    Kind& kind = kinds_[at];
    if (!kind.used) {
      kind = {.used = true,
              .reduction = spec.reduction,
              .tag = spec.tag,
              .count = spec.count,
              .scale = first_scale_};
    }
    if (kind.is(spec)) return at;
  }
  return home;
}

ScaleHistory::Ticket ScaleHistory::submit(const OperationSpec& spec) {
  const std::uint32_t kind = kind_of(spec);
  return {kind, kinds_[kind].submitted++};
}

std::optional<double> ScaleHistory::scale_of(const Ticket& ticket) const {
  const Kind& kind = kinds_[ticket.kind];
  if (kind.completed != ticket.number) return std::nullopt;
  return kind.scale;
}

void ScaleHistory::complete(const Ticket& ticket, double magnitude) {
  Kind& kind = kinds_[ticket.kind];
  ATP_CHECK(kind.completed == ticket.number);
  ++kind.completed;
  kind.learn(magnitude);
}

void ScaleHistory::Kind::learn(double magnitude) {
  if (magnitude == 0) return;
  const int room = std::ilogb(kTarget / magnitude);  // powers of two that the scale may rise
  int rise = room;
  if (room > 0 && room <= kMuchRoom && measured) {
    quiet = static_cast<std::uint8_t>(quiet + 1);
    rise = quiet >= kRiseAfter ? 1 : 0;
  }
  if (room <= 0 || rise > 0) quiet = 0;
  measured = true;
  const int exponent = std::clamp(std::ilogb(scale) + rise, kMinExponent, kMaxExponent);
  scale = std::ldexp(1.0, exponent);
}

}  // namespace atp
