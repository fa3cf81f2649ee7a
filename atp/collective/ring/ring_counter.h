#pragma once

#include <cstdint>
#include <string_view>

#include "atp/base/counters.h"

// What a rank counts about its ring, at the system calls. TCP repeats what is lost by itself.

namespace atp {

enum class RingCounter : std::uint8_t {
  kBytesSent,        // of all stages: what the model of a ring counts
  kHeaderBytesSent,  // 32 for each operation
  kBytesReceived,    // both
  kSendCalls,
  kReceiveCalls,
  kWaits,  // for the network or for an operation
  kOperationsCompleted,
  kOperationsFailed,
  kCount,
};

constexpr std::string_view to_string(RingCounter counter) {
  switch (counter) {
    case RingCounter::kBytesSent: return "ring_bytes_sent";
    case RingCounter::kHeaderBytesSent: return "ring_header_bytes_sent";
    case RingCounter::kBytesReceived: return "ring_bytes_received";
    case RingCounter::kSendCalls: return "ring_send_calls";
    case RingCounter::kReceiveCalls: return "ring_receive_calls";
    case RingCounter::kWaits: return "ring_waits";
    case RingCounter::kOperationsCompleted: return "operations_completed";
    case RingCounter::kOperationsFailed: return "operations_failed";
    case RingCounter::kCount: break;
  }
  return "unknown";
}

using RingCounters = Counters<RingCounter>;

}  // namespace atp
