#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "atp/core/outbox.h"
#include "atp/core/server/server.h"
#include "atp/sim/contribution_judge.h"
#include "atp/sim/proof_judge.h"

namespace atp::sim {

// Checks what a server sends. By docs/inside/protocol §6, for a fragment: all its PARAMETERs are
// the same, are repeated to a rank at most once per millisecond, go straight back to a rank that
// asked straight, and move the index if and only if there was a collision; every packet names the
// index that the sequence's earlier PARAMETER gave; a FLUSH goes to switches only. By §2, for
// ranks: a rank that is gone, or held by another socket, cannot join; a member's JOIN makes no job;
// news is sent to the others at once; and a server that was stopped ends no lease. The judge sees
// the server's packets and what it reports for display.
class ServerJudge {
 public:
  ServerJudge(const ServerConfig& config, const Endpoint& own, std::uint16_t switch_port)
      : config_(config), own_(own), switch_port_(switch_port), contributions_(config.wmax) {}

  // Ends a turn in which these packets were sent because of this packet or (no bytes) a timer.
  void end_turn(Instant now, const Endpoint& from, std::span<const std::uint8_t> bytes,
                const Server& server, const Outbox& out);
  // The server has forgotten everything.
  void begin_anew();

  const std::vector<std::string>& violations() const { return violations_; }

 private:
  using StreamKey = std::pair<JobKey, std::uint16_t>;
  // A fragment that is complete.
  struct Result {
    std::vector<std::uint8_t> fixed;  // what all its PARAMETERs have in common
    RankSet answered;                 // since then
    Instant since{};
  };
  struct Stream {
    std::map<std::uint64_t, Result> results;
    std::map<std::uint64_t, std::uint32_t> indices;
  };
  // A rank's holder, from its acknowledged JOINs.
  struct Holder {
    std::uint64_t nonce = 0;
    Instant acknowledged = Instant::min();
    std::uint32_t detachments = 0;
    bool detached = false;
  };
  // Copies of one message.
  struct Message {
    const PacketView& packet;
    std::vector<Endpoint> to;
  };

  void judge(Instant now, const Endpoint& from, const PacketView* cause, const Message& message);
  void judge_parameter(Instant now, Stream& stream, const PacketView& packet);
  void judge_first(Stream& stream, const PacketView& packet);
  void judge_answer(const Endpoint& from, const PacketView& cause, const Message& message);
  bool is_worker(Instant now, const Endpoint& endpoint) const;
  // server_judge_members.cc
  void judge_join(Instant now, const Endpoint& from, const PacketView& packet, const Server& server,
                  const Outbox& out);
  void judge_detaching(const PacketView& packet, const Join& join, const JobSummary& job);
  void expect_tenants_room(Instant now, const Server& server);
  void expect_news(Instant now, const StreamKey& range, const Outbox& out);
  void judge_lost(Instant now, const Server& server, const Outbox& out);

  void judge_contribution(Instant now, const PacketView& packet, const Server& server,
                          const Outbox& out);
  void note_stop(Instant now);
  void forget_jobs(Instant now, const Server& server);
  void object(const std::string& what);

  ServerConfig config_;
  Endpoint own_;  // the address of the server
  std::uint16_t switch_port_;
  std::map<StreamKey, Stream> streams_;
  std::map<std::pair<StreamKey, Rank>, Holder> holders_;
  std::map<std::pair<StreamKey, std::uint64_t>, std::uint32_t> detachments_said_;  // by nonce
  std::map<StreamKey, Instant> switch_joined_;  // when a JOIN came through one
  std::map<StreamKey, RankSet> lost_;           // by the job's stream range
  Instant last_turn_ = Instant::max();
  Instant no_loss_until_ = Instant::min();
  std::map<Endpoint, Instant> straight_join_;  // the last from this endpoint
  std::map<Endpoint, Instant> straight_ack_;   // the last to this endpoint
  std::set<StreamKey> over_;                   // no longer judged
  std::size_t jobs_ = 0;
  ContributionJudge contributions_;
  ProofJudge proofs_;
  Counters<ServerCounter> before_;                 // after the last turn
  std::map<StreamKey, std::uint16_t> world_size_;  // by stream
  static constexpr std::size_t kMaxViolations = 5;
  std::vector<std::string> violations_;
};

}  // namespace atp::sim
