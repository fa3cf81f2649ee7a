#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "atp/core/outbox.h"

namespace atp::sim {

// Which JOINs count at a node, and to whom it may send (docs/inside/protocol §2, *Proof*): the
// judge remembers what the node has told whom, and who has repeated it. It computes no proof
// itself.
class ProofJudge {
 public:
  using Object = std::function<void(const std::string&)>;

  // Call it after the turn of a readable JOIN. Returns whether the JOIN counts; if not, the only
  // packet sent must be the right STATUS.
  bool end_join(const Endpoint& from, const PacketView& packet, const Join& join, const Outbox& out,
                const Object& object);
  // Call it after every turn, with the packet that was handled (empty: a timer). What goes down
  // goes to who has proven its address in that job, except for one answer to the sender, which is
  // no larger than the packet.
  void expect_receivers(const Endpoint& from, std::span<const std::uint8_t> cause,
                        const Outbox& out, const Object& object) const;
  // What the node has told this sender.
  std::optional<std::uint64_t> told(const JobKey& job, const Endpoint& sender) const;
  void begin_anew() { *this = {}; }

 private:
  using Place = std::pair<JobKey, Endpoint>;

  void note(const Place& place, std::uint64_t proof, const Object& object);

  std::map<Place, std::uint64_t> told_;
  std::map<std::uint64_t, Place> place_of_;  // the reverse
  std::set<Place> proven_;
};

}  // namespace atp::sim
