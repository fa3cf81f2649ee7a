#include "atp/core/server/answer_limiter.h"

#include "atp/wire/packet.h"

namespace atp {
namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15U;
  return hash ^ (hash >> 32);
}

}  // namespace

AnswerLimiter::AnswerLimiter(std::uint64_t seed) : seed_(seed) { last_.fill(Instant::min()); }

bool AnswerLimiter::allow(Instant now, Duration pause, const Endpoint& to, StatusCode code,
                          Rank rank) {
  std::uint64_t hash = mix(seed_, atp_load64(to.address.data()));
  hash = mix(hash, atp_load64(to.address.data() + 8));
  hash = mix(hash, std::uint64_t{to.port} << 32 | std::uint64_t{rank} << 16 |
                       static_cast<std::uint64_t>(code));
  Instant& last = last_[hash % last_.size()];
  if (now < last + pause) return false;
  last = now;
  return true;
}

}  // namespace atp
