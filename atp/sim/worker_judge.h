#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "atp/core/outbox.h"
#include "atp/core/worker/worker.h"
#include "atp/sim/worker_judge_room.h"

namespace atp::sim {

// Checks a worker's packets by docs/inside/protocol §5, whatever happens to it: their order and how
// far ahead they are, their index and flags, its room, and the wait before it returns to its tree.
// The judge sees only the packets that the worker received and sent, whether it reports that it is
// attached, and how many cuts of its room it counts.
// The timing of repeats is not judged here, but their cost is (economy.h).
class WorkerJudge {
 public:
  WorkerJudge(const WorkerConfig& config, std::uint32_t wmax) : WorkerJudge(config, wmax, {}) {}

  // The worker, which has joined, is about to receive this packet.
  void took(const Endpoint& from, std::span<const std::uint8_t> bytes);
  // Ends a turn in which these packets were sent; the worker says whether it is attached now, and
  // how often its room was cut.
  void end_turn(Instant now, bool attached, std::uint64_t room_cuts, const Outbox& out);

  // The worker has been started again.
  void begin_anew() { *this = WorkerJudge(config_, wmax_, std::move(violations_)); }

  // Whether a stream has begun below this sequence and reached it.
  bool has_passed(std::uint64_t sequence) const;

  const std::vector<std::string>& violations() const { return violations_; }

 private:
  WorkerJudge(const WorkerConfig& config, std::uint32_t wmax, std::vector<std::string> violations)
      : config_(config), wmax_(wmax), room_(config, wmax), violations_(std::move(violations)) {}

  struct Fragment {
    std::uint32_t operation = 0;
    std::uint8_t kind = 0;
    std::uint16_t value_count = 0;
    bool as_floats = false;  // the server has asked for them
    bool answered = false;
  };
  struct Stream {
    std::uint64_t next;                              // the first that was never sent
    std::map<std::uint64_t, Fragment> fragments;     // from the oldest unanswered one on
    std::map<std::uint64_t, std::uint32_t> indices;  // as given by PARAMETERs
    std::uint64_t asked_end = 0;                     // the server has asked for fragments below
    std::uint64_t base() const { return fragments.empty() ? next : fragments.begin()->first; }
  };

  Stream& stream_of(std::uint16_t id) {
    return streams_.try_emplace(id, Stream{.next = config_.first_sequence}).first->second;
  }
  void note_parameter(Stream& stream, const PacketView& packet);
  void note_nack(Stream& stream, const PacketView& packet);
  void judge_gradient(const PacketView& packet, const Endpoint& to, bool may_be_plain);
  void judge_place(Stream& stream, const PacketView& packet);
  void judge_flags(const Stream& stream, const PacketView& packet, bool may_be_plain);
  void judge_return(Instant now, bool attached);
  void object(const std::string& what);

  WorkerConfig config_;
  std::uint32_t wmax_;
  std::map<std::uint16_t, Stream> streams_;
  WorkerJudgeRoom room_;
  bool was_attached_ = true;
  std::uint32_t detachments_ = 0;
  Instant detached_at_{};
  static constexpr std::size_t kMaxViolations = 5;
  std::vector<std::string> violations_;
};

}  // namespace atp::sim
