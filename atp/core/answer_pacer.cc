#include "atp/core/answer_pacer.h"

namespace atp {
namespace {

// A multiply and fold for each word; the seed keeps a stranger from choosing whose slot it fills.
std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 29);
}

}  // namespace

AnswerPacer::AnswerPacer(Duration pause, std::uint64_t seed) : pause_(pause), seed_(seed) {
  last_.fill(Instant::min());
}

bool AnswerPacer::allow(Instant now, const Endpoint& to, const JobKey& job,
                        const StatusMessage& answer) {
  const Rank rank = answer.about.empty() ? Rank{0} : answer.about.lowest();
  std::uint64_t hash = mix(seed_, atp_load64(to.address.data()));
  hash = mix(hash, atp_load64(to.address.data() + 8));
  hash = mix(hash, std::uint64_t{to.port} << 16 | rank);
  hash = mix(hash, std::uint64_t{job.job} << 32 | job.incarnation);
  hash = mix(hash, std::uint64_t{static_cast<std::uint16_t>(answer.code)} << 16 | answer.reason);
  Instant& last = last_[(hash >> 32) % kSlots];
  if (last != Instant::min() && now < last + pause_) return false;
  last = now;
  return true;
}

}  // namespace atp
