#pragma once

#include <cstdint>
#include <vector>

#include "atp/core/dataplane/switch_rig_test.h"
#include "atp/core/testing_quotas.h"

// Jobs of four ranks below one switch, for tests of how they share its aggregators. A fragment has
// only one place, unless the test's configuration says otherwise.

namespace atp::rig {

inline Bytes of_job(Bytes bytes, std::uint32_t job, std::uint32_t incarnation = kJob.incarnation,
                    std::uint16_t tenant = 0) {
  atp_store32(&bytes[ATP_AT_JOB], job);
  atp_store32(&bytes[ATP_AT_INCARNATION], incarnation);
  atp_store16(&bytes[ATP_AT_TENANT], tenant);
  return bytes;
}

inline SwitchConfig sharing(const SharingConfig& with, const Quotas* quotas) {
  SwitchConfig config = rig::config();
  config.places = 1;
  config.sharing = with;
  config.quotas = quotas;
  return config;
}

struct Jobs : Rig {
  using TenantOf = std::uint16_t (*)(std::uint32_t job);
  explicit Jobs(
      const SharingConfig& with, const Quotas* quotas = nullptr,
      TenantOf tenant = [](std::uint32_t) -> std::uint16_t { return 0; })
      : Jobs(sharing(with, quotas), tenant) {}
  explicit Jobs(const SwitchConfig& with, TenantOf tenant) : Rig(with), tenant_of(tenant) {}

  // Joins two of the job's four ranks, so that no sum is complete.
  void enter(std::uint32_t job, std::uint32_t incarnation = kJob.incarnation) {
    for (unsigned rank = 0; rank < 2; ++rank) {
      in(child(rank), of_job(join(rank), job, incarnation, tenant_of(job)));
      JoinAck ack = ack_body();
      ack.nonce = nonce(rank);
      const RankSet one = RankSet::of(static_cast<Rank>(rank));
      in(kServer, of_job(join_ack(one, ack), job, incarnation, tenant_of(job)));
    }
  }
  void depart(std::uint32_t job) {
    for (unsigned rank = 0; rank < 2; ++rank) {
      in(child(rank), whose(leave(rank, nonce(rank)), job));
    }
  }
  std::vector<Sent> send(std::uint32_t job, unsigned rank, std::uint64_t sequence,
                         unsigned flags = 0) {
    return in(child(rank),
              whose(gradient(RankSet::of(static_cast<Rank>(rank)), sequence, 1, flags), job));
  }
  // Sends the first contribution of a fragment; returns whether the switch keeps it.
  bool keeps(std::uint32_t job, std::uint64_t sequence) { return send(job, 0, sequence).empty(); }
  void answer(std::uint32_t job, std::uint64_t sequence) {
    in(kServer, whose(parameter(RankSet::first(2), sequence), job));
  }
  Bytes whose(Bytes bytes, std::uint32_t job) const {
    return of_job(std::move(bytes), job, kJob.incarnation, tenant_of(job));
  }

  const TenantOf tenant_of;
};

}  // namespace atp::rig
