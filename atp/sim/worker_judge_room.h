#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "atp/core/worker/worker_api.h"

namespace atp::sim {

// The room of docs/inside/protocol §5, *Room*, as a worker's first transmissions and accepted
// answers make it. It is written from the page and shares no rule with the product.
class WorkerJudgeRoom {
 public:
  WorkerJudgeRoom(const WorkerConfig& config, std::uint32_t wmax)
      : has_room_(config.room),
        most_(std::uint64_t{wmax} * config.stream_count),
        servers_(config.servers) {
    if (has_room_) set(kFirstRoom);
  }

  // A fragment of the stream is sent for the first time. Returns whether there was room for it.
  bool sends_new(std::uint16_t stream);
  // A PARAMETER with this part was accepted.
  void takes_answer(std::uint16_t stream, bool collided, std::uint8_t part);

  // What the worker must count as room_cuts.
  std::uint64_t cuts() const { return cuts_; }

 private:
  static constexpr std::uint64_t kFirstRoom = 32;

  void begin_round();
  void end_round();
  void note_part(std::uint64_t part);
  void set(std::uint64_t room);
  std::uint64_t least() const;  // at the end of a round

  bool has_room_;
  std::uint64_t most_;
  std::uint64_t servers_;
  std::map<std::uint16_t, std::uint64_t> in_flight_of_;  // by stream
  std::uint64_t in_flight_ = 0;
  std::uint64_t in_flight_at_send_ = 0;  // after the latest first transmission
  std::uint64_t part_ = 0;               // in aggregators; 0: no answer has had one
  std::optional<std::uint64_t> room_;    // none: no bound
  bool has_answer_ = false;
  std::uint64_t uncounted_ = 0;     // answers that must come before the next round begins
  std::uint64_t answers_ = 0;       // of this round
  std::uint64_t collided_ = 0;      // of them
  std::uint32_t clean_rounds_ = 0;  // in a row, since the room last grew by one
  std::uint64_t cuts_ = 0;
};

}  // namespace atp::sim
