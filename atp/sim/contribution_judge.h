#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "atp/core/outbox.h"
#include "atp/core/server/server.h"

namespace atp::sim {

// Executes the second table of docs/inside/protocol §6, *GRADIENT*, next to a server: the row that
// decides on each contribution, by the counter that rises, whom the NACKs of that turn ask, when a
// fragment is complete, and which ranks *waiting for* may name. It is written from the page and
// shares no rule with the product. Only the server knows which fragments have a float slot, so from
// the start of float mode to the result, the judge accepts what either state allows.
class ContributionJudge {
 public:
  explicit ContributionJudge(std::uint32_t wmax) : wmax_(wmax) {}

  // Ends a turn that this GRADIENT caused, which the first table has let pass. `before`: the
  // server's counters before the turn.
  void end_gradient(const PacketView& packet, std::uint16_t world_size,
                    const Counters<ServerCounter>& before, const Counters<ServerCounter>& after,
                    const Outbox& out);
  // A STATUS *waiting for* or *operation mismatch* that goes out.
  void judge_status(const PacketView& packet);
  void begin_anew() { streams_.clear(); }

  std::vector<std::string> take_objections() { return std::exchange(objections_, {}); }

 private:
  enum class Phase : std::uint8_t { kCollecting, kFloats, kComplete };
  struct Fragment {
    Phase phase = Phase::kCollecting;
    bool is_named = false;
    std::uint32_t operation = 0;
    std::uint8_t kind = 0;
    std::uint16_t value_count = 0;
    RankSet all;     // of the job
    RankSet ranks;   // whose integers it has
    RankSet floats;  // whose floats have come
    RankSet others;  // who have sent another operation
    std::uint32_t magnitude = 0;
    bool overflows = false;
  };
  using Stream = std::map<std::uint64_t, Fragment>;  // by sequence
  using StreamKey = std::pair<JobKey, std::uint16_t>;
  // The counters of which one may rise; kCount: none.
  using Allowed = std::vector<ServerCounter>;

  Allowed row_of(const PacketView& packet, Fragment& fragment);
  Allowed meet_integers(const PacketView& packet, Fragment& fragment);
  Allowed meet_floats(const PacketView& packet, Fragment& fragment);
  void take(const PacketView& packet, Fragment& fragment);
  void judge_sent(const PacketView& cause, Fragment& fragment, bool was_complete,
                  const Outbox& out);
  void object(const std::string& what) { objections_.push_back(what); }

  std::uint32_t wmax_;
  std::map<StreamKey, Stream> streams_;
  std::vector<std::string> objections_;
};

}  // namespace atp::sim
