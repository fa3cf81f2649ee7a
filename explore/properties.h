#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "explore/packets.h"
#include "explore/stored_node.h"

// The rules for one turn of a node, whatever happened before. packets.h has the rules for
// packets, and the applications in node.h compare the results.
//
//  * A switch loses no contribution: afterwards it holds, or has forwarded, everything that it held
//    of a fragment and everything that arrived, unless the server has completed the fragment, or
//    the ranks behind the sender are unknown (then it reports so, and the workers send again).
//  * A switch holds a fragment at one place, and not when its PARAMETER has passed.
//  * A completed fragment never changes: every PARAMETER of it has the same next index, and it
//    stays complete until it is forgotten.

namespace atp::explore {

class Witness {
 public:
  // Make one before a turn in which time passes, or in which a packet arrives.
  explicit Witness(Node& node);
  Witness(Node& node, const Endpoint& from, const PacketView& packet);
  // After the turn: what is wrong, or an empty text.
  std::string objection(Node& node, const std::vector<Packet>& sent) const;

 private:
  struct Held {
    Identity identity;
    RankSet ranks;
  };

  static std::vector<Held> held_by(const SwitchState& state);
  std::string judge_switch(SwitchNode& node, const std::vector<Packet>& sent) const;
  std::string judge_server(Server& server, const std::vector<Packet>& sent) const;

  Identity completed_;  // of the PARAMETER that arrived, if one did
  bool completes_ = false;
  std::vector<Held> owed_;
  std::vector<FinalFragment> final_;
};

}  // namespace atp::explore
