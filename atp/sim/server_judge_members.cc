// Which ranks may join, and what the others are told (docs/inside/protocol §2 and §6).
#include <algorithm>
#include <utility>

#include "atp/sim/server_judge.h"
#include "atp/wire/join.h"
#include "atp/wire/status.h"

namespace atp::sim {
namespace {

bool says(const Outbox& out, StatusCode code) {
  return std::any_of(out.packets().begin(), out.packets().end(), [&](const OutPacket& packet) {
    const ParsedPacket parsed = parse_packet(out.bytes_of(packet));
    if (!parsed.ok() || parsed.view().type() != PacketType::kStatus) return false;
    const std::optional<StatusMessage> status = StatusMessage::read(parsed.view());
    return status && status->code == code;
  });
}

bool acknowledges(const Outbox& out, const Endpoint& to, std::uint64_t nonce) {
  return std::any_of(out.packets().begin(), out.packets().end(), [&](const OutPacket& packet) {
    const ParsedPacket parsed = parse_packet(out.bytes_of(packet));
    if (!parsed.ok() || parsed.view().type() != PacketType::kJoinAck) return false;
    const std::optional<JoinAck> ack = JoinAck::read(parsed.view().body);
    return packet.to == to && ack && ack->nonce == nonce;
  });
}

}  // namespace

void ServerJudge::judge_join(Instant now, const Endpoint& from, const PacketView& packet,
                             const Server& server, const Outbox& out) {
  const std::optional<Join> join = Join::read(packet.body);
  if (!join || packet.ranks.size() != 1) return;
  if (!proofs_.end_join(from, packet, *join, out, [&](const std::string& what) { object(what); })) {
    if (server.job_count() > jobs_) object("a JOIN without a right proof made a job");
    return;
  }
  if (packet.has(ATP_FLAG_DIRECT)) straight_join_[from] = now;
  if (join->server_boot_id != 0 && server.job_count() > jobs_) {
    object("a member's JOIN made a job");
  }
  if (server.job_count() > config_.max_jobs) object("more jobs than allowed");
  expect_tenants_room(now, server);
  const StreamKey range{packet.job(), join->first_stream};
  const auto [said, is_first] = detachments_said_.emplace(std::pair{range, join->nonce}, 0);
  const bool is_newer = !is_first && join->detachments > said->second;
  said->second = std::max(said->second, join->detachments);
  if (!acknowledges(out, from, join->nonce)) return;
  if (join->remaining.size() != 1 || join->remaining[0] != own_) {
    object("a JOIN that was meant for another node was acknowledged");
  }
  Holder& holder = holders_[{range, packet.ranks.lowest()}];
  if (holder.nonce != join->nonce) {
    const bool is_held =
        holder.acknowledged != Instant::min() && now < holder.acknowledged + config_.timing.lease;
    if (is_held) object("a JOIN took a rank that another socket holds");
    holder = {.nonce = join->nonce, .detachments = join->detachments, .detached = join->detached};
  }
  holder.acknowledged = now;
  const bool is_straight = packet.has(ATP_FLAG_DIRECT);
  server.for_each_job(now, [&](const JobSummary& job) {
    if (job.terms.key != range.first || job.terms.first_stream != range.second) return;
    if ((job.lost | job.left).contains(packet.ranks)) object("a rank that is gone came back");
    judge_detaching(packet, *join, job);
    if (from.port == switch_port_ && !is_straight) switch_joined_[range] = now;
    // Once a rank is lost the job is over, and leases that would end soon have ended with its.
    const bool matters = job.lost.empty();
    if (matters && is_newer && is_straight && join->detached) expect_news(now, range, out);
  });
}

void ServerJudge::expect_tenants_room(Instant now, const Server& server) {
  std::map<std::uint32_t, std::set<std::uint32_t>> jobs_of_tenant;
  server.for_each_job(now, [&](const JobSummary& summary) {
    const JobKey& job = summary.terms.key;
    const std::uint32_t most = quota_of(config_.quotas, job.tenant).jobs;
    std::set<std::uint32_t>& jobs = jobs_of_tenant[job.tenant];
    jobs.insert(job.job);
    if (most != 0 && jobs.size() > most) {
      object("a tenant has more jobs than it may");
    }
  });
}

// Of two statements about a rank, the one with the higher number counts; if the numbers are equal,
// *attached* does. A straight JOIN is a statement only if it has the mark.
void ServerJudge::judge_detaching(const PacketView& packet, const Join& join,
                                  const JobSummary& job) {
  const StreamKey range{packet.job(), join.first_stream};
  Holder& holder = holders_[{range, packet.ranks.lowest()}];
  const bool is_straight = packet.has(ATP_FLAG_DIRECT);
  const bool is_newer = join.detachments > holder.detachments;
  if (is_newer && (!is_straight || join.detached)) {
    holder.detachments = join.detachments;
    holder.detached = join.detached;
  } else if (!is_straight && join.detachments == holder.detachments) {
    holder.detached &= join.detached;
  }
  if (holder.detached && !job.detached.contains(packet.ranks)) {
    object("an older JOIN attached a rank");
  }
}

// News must be sent at once, because switches would otherwise wait for the rank in vain. A rank
// that starts detached is not news: the others are notified one refresh later.
void ServerJudge::expect_news(Instant now, const StreamKey& range, const Outbox& out) {
  const auto heard = switch_joined_.find(range);
  const bool has_switch =
      heard != switch_joined_.end() && now < heard->second + config_.timing.lease;
  if (has_switch && !says(out, StatusCode::kDetached)) {
    object("switches were not told at once that a rank is detached");
  }
}

void ServerJudge::judge_lost(Instant now, const Server& server, const Outbox& out) {
  bool is_any = false;
  bool is_news = false;
  server.for_each_job(now, [&](const JobSummary& job) {
    RankSet& lost = lost_[{job.terms.key, job.terms.first_stream}];
    const RankSet present = RankSet::first(job.terms.world_size) - job.lost - job.left;
    is_any |= !(job.lost - lost).empty();
    is_news |= !(job.lost - lost).empty() && !present.empty();
    lost = job.lost;
  });
  if (is_any && now < no_loss_until_) object("a rank was lost by a server that was stopped");
  // What has happened before is said in its place.
  const bool is_said = says(out, StatusCode::kLeaseEnded) || says(out, StatusCode::kLeft) ||
                       says(out, StatusCode::kOperationMismatch);
  if (is_news && !is_said) object("the other ranks were not notified of a lost rank");
}

}  // namespace atp::sim
