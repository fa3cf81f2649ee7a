#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/packets.h"
#include "models/stored_node.h"

// What one turn of a node must not do, whatever came before; packets.h has what no packet may say,
// and the applications of node.h compare the results.
//
//  * A switch loses no contribution: what it held of a fragment, and what came, it holds afterwards
//    or has sent on, unless the server has said that the fragment is complete, or nobody behind the
//    sender is known (then it says so, and the workers send again).
//  * What the server has completed never changes: every PARAMETER of a fragment says the same next
//    index, and a complete fragment stays so until it is forgotten.

namespace atp::models {

class Witness {
 public:
  // Before a turn in which time passes, and before one in which a packet comes.
  explicit Witness(Node& node);
  Witness(Node& node, const Endpoint& from, const PacketView& packet);
  // Afterwards: what is wrong, or nothing.
  std::string objection(Node& node, const std::vector<Packet>& sent) const;

 private:
  struct Held {
    Identity identity;
    RankSet ranks;
  };

  static std::vector<Held> held_by(const SwitchState& state);
  std::string judge_switch(SwitchNode& node, const std::vector<Packet>& sent) const;
  std::string judge_server(Server& server, const std::vector<Packet>& sent) const;

  Identity completed_;  // the PARAMETER that came, if one did
  bool completes_ = false;
  std::vector<Held> owed_;
  std::vector<FinalFragment> final_;
};

}  // namespace atp::models
