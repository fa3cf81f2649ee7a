#include "atp/core/topology/proof.h"

#include <array>

namespace atp {

std::uint64_t proof_of(const HashKey& secret, const JobKey& job, const Endpoint& sender) {
  std::array<std::uint8_t, Endpoint::kWireBytes + 10> message;
  std::uint8_t* at = message.data();
  write_endpoint(at, sender);
  at += Endpoint::kWireBytes;
  atp_store32(at, job.job);
  atp_store32(at + 4, job.incarnation);
  atp_store16(at + 8, job.tenant);
  return sip_hash(secret, message);
}

}  // namespace atp
