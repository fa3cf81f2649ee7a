#include "atp/core/answer_pacer.h"

namespace atp {
namespace {

// Mixes in one word with a multiply and a fold.
std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 29);
}

std::uint64_t mix_source(std::uint64_t seed, const Endpoint& to) {
  const std::uint64_t hash = mix(seed, atp_load64(to.address.data()));
  return to.is_ipv4() ? mix(hash, atp_load64(to.address.data() + 8)) : hash;
}

}  // namespace

AnswerPacer::AnswerPacer(Duration pause, std::uint64_t seed) : pause_(pause), seed_(seed) {}

bool AnswerPacer::allow(Instant now, const Endpoint& to, std::size_t cause_bytes,
                        std::size_t answer_bytes, const StatusMessage& answer, To receiver) {
  if (answer_bytes > cause_bytes) return false;
  if (receiver == To::kChild) return true;
  const std::uint64_t source = mix_source(seed_, to);
  Allowance& of_address = of_address_[(source >> 32) % kSlots];

  const Rank rank = answer.about.empty() ? Rank{0} : answer.about.lowest();
  std::uint64_t what = mix(source, atp_load64(to.address.data() + 8));
  what = mix(what, std::uint64_t{to.port} << 16 | rank);
  what = mix(what, std::uint64_t{static_cast<std::uint16_t>(answer.code)} << 16 | answer.reason);
  Said& last = said_[(what >> 32) % kSlots];
  if (last.what == what && now < last.at + pause_) return false;

  const Duration total_pause = pause_ / kTotalPerPause;
  if (!of_address.has(now, pause_, kAddressBurst)) return false;
  if (!total_.has(now, total_pause, kTotalBurst)) return false;
  of_address.take(now, pause_);
  total_.take(now, total_pause);
  last = {what, now};
  return true;
}

}  // namespace atp
