#include "atp/sim/faults.h"

namespace atp::sim {

std::string_view to_string(Fault fault) {
  switch (fault) {
    case Fault::kLoss: return "loss";
    case Fault::kBurstLoss: return "burst_loss";
    case Fault::kDuplicate: return "duplicate";
    case Fault::kDelay: return "held_back";
    case Fault::kClog: return "clog";
    case Fault::kPause: return "pause";
    case Fault::kSwitchDeath: return "switch_death";
    case Fault::kSwitchReturn: return "switch_return";
    case Fault::kDeadSwitchPacket: return "packet_to_the_dead";
    case Fault::kUnreachable: return "unreachable";
    case Fault::kLateStart: return "late_start";
    case Fault::kCount: break;
  }
  return "unknown";
}

}  // namespace atp::sim
