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

namespace atp::sim {

// What docs/protocol.md §6 lets a server say about a fragment: every PARAMETER of it is the same
// and is repeated to a rank at most once in a millisecond, goes straight back to whoever
// asked straight, and moves the index if, and only if, there was a collision; whatever names a
// sequence names the index that its PARAMETER before said; a FLUSH is for switches. And by §2 of
// ranks: who is gone, or held by another socket, does not come in, a member's JOIN makes no job,
// and what is news to others is said at once; nor is a lease ended by a server that stood still.
// Known are its packets and what it tells a display.
class ServerJudge {
 public:
  ServerJudge(const ServerConfig& config, std::uint16_t switch_port)
      : config_(config), switch_port_(switch_port) {}

  // The end of a turn in which these were sent, because of this packet or (no bytes) of a timer.
  void end_turn(Instant now, const Endpoint& from, std::span<const std::uint8_t> bytes,
                const Server& server, const Outbox& out);
  // The server has forgotten everything.
  void begin_anew();

  const std::vector<std::string>& violations() const { return violations_; }

 private:
  using StreamKey = std::pair<JobKey, std::uint16_t>;
  // A fragment that is complete.
  struct Result {
    std::vector<std::uint8_t> fixed;  // what all its PARAMETERs share: all but flags and ranks
    RankSet answered;                 // since then
    Instant since{};
  };
  struct Stream {
    std::map<std::uint64_t, Result> results;
    std::map<std::uint64_t, std::uint32_t> indices;
  };
  // A rank, by its JOINs that were acknowledged.
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
  void expect_news(Instant now, const StreamKey& range, const Outbox& out);
  void judge_lost(Instant now, const Server& server, const Outbox& out);

  void note_stop(Instant now);
  void forget_jobs(Instant now, const Server& server);
  void object(const std::string& what);

  ServerConfig config_;
  std::uint16_t switch_port_;
  std::map<StreamKey, Stream> streams_;
  std::map<std::pair<StreamKey, Rank>, Holder> holders_;
  std::map<std::pair<StreamKey, std::uint64_t>, std::uint32_t> detachments_said_;  // by nonce
  std::map<StreamKey, Instant> switch_joined_;  // when a JOIN came through one
  std::map<StreamKey, RankSet> lost_;           // by the job's range
  Instant last_turn_ = Instant::max();
  Instant no_loss_until_ = Instant::min();
  std::map<Endpoint, Instant> straight_join_;  // the last that came from there
  std::map<Endpoint, Instant> straight_ack_;   // the last that went there
  std::set<StreamKey> over_;                   // what comes of these is not judged any more
  std::size_t jobs_ = 0;
  std::vector<std::string> violations_;
};

}  // namespace atp::sim
