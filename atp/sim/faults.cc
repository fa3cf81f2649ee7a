#include "atp/sim/faults.h"

namespace atp::sim {

std::string_view to_string(Fault fault) {
  switch (fault) {
    case Fault::kLoss: return "loss";
    case Fault::kBurstLoss: return "burst_loss";
    case Fault::kOneWayLoss: return "one_way_loss";
    case Fault::kQueueLoss: return "queue_loss";
    case Fault::kOutboxLoss: return "outbox_loss";
    case Fault::kDuplicate: return "duplicate";
    case Fault::kDelay: return "held_back";
    case Fault::kStale: return "stale";
    case Fault::kCorruption: return "corruption";
    case Fault::kTruncation: return "truncation";
    case Fault::kForeign: return "foreign";
    case Fault::kDishonest: return "dishonest";
    case Fault::kMove: return "move";
    case Fault::kMisdirected: return "misdirected";
    case Fault::kPhantom: return "phantom";
    case Fault::kEarlierLife: return "earlier_incarnation";
    case Fault::kEcnMark: return "ecn_mark";
    case Fault::kClog: return "clog";
    case Fault::kPause: return "pause";
    case Fault::kSwitchDeath: return "switch_death";
    case Fault::kSwitchReturn: return "switch_return";
    case Fault::kServerDeath: return "server_death";
    case Fault::kServerReturn: return "server_return";
    case Fault::kWorkerDeath: return "worker_death";
    case Fault::kWorkerReturn: return "worker_return";
    case Fault::kDeadSwitchPacket: return "packet_to_the_dead";
    case Fault::kUnreachable: return "unreachable";
    case Fault::kLateStart: return "late_start";
    case Fault::kMismatch: return "mismatch";
    case Fault::kAbort: return "abort";
    case Fault::kAddressChange: return "address_change";
    case Fault::kCount: break;
  }
  return "unknown";
}

}  // namespace atp::sim
