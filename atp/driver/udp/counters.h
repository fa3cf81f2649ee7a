#pragma once

#include <cstdint>
#include <string_view>

#include "atp/base/counters.h"

// What the driver counts per socket. A datagram is one packet of the protocol; a train is what one
// message of a system call passes to or from the kernel (one datagram or several segments).

namespace atp {

enum class UdpCounter : std::uint8_t {
  kDatagramsIn,
  kTrainsIn,
  kBytesIn,      // UDP payload
  kCongestedIn,  // marked by the network (IP CE)
  kIpBytesIn,    // with IP and UDP headers: 28 bytes more per datagram, 48 over IPv6
  kDatagramsOut,
  kTrainsOut,
  kBytesOut,
  kIpBytesOut,
  kLostQueueFull,    // the send buffer stayed full
  kLostTooBig,       // larger than the MTU (EMSGSIZE); packets are never fragmented
  kLostOther,        // no route, filtered, an address family that is not the socket's
  kSegmentsRefused,  // the kernel refused UDP_SEGMENT; packets go out singly from then on
  kIcmpUnreachable,
  kIcmpTooBig,
  kIcmpUnproven,  // an ICMP error that quotes no packet sent lately: forged or outdated
  kWrongKey,      // a tag is missing, wrong, or unexpected because there are no keys
  kStoppedMs,     // milliseconds in which the thread did not run (RunningClock)
  kCount,
};

constexpr std::string_view to_string(UdpCounter counter) {
  switch (counter) {
    case UdpCounter::kDatagramsIn: return "udp_datagrams_in";
    case UdpCounter::kTrainsIn: return "udp_trains_in";
    case UdpCounter::kBytesIn: return "udp_bytes_in";
    case UdpCounter::kCongestedIn: return "udp_congested_in";
    case UdpCounter::kIpBytesIn: return "udp_ip_bytes_in";
    case UdpCounter::kDatagramsOut: return "udp_datagrams_out";
    case UdpCounter::kTrainsOut: return "udp_trains_out";
    case UdpCounter::kBytesOut: return "udp_bytes_out";
    case UdpCounter::kIpBytesOut: return "udp_ip_bytes_out";
    case UdpCounter::kLostQueueFull: return "udp_lost_queue_full";
    case UdpCounter::kLostTooBig: return "udp_lost_too_big";
    case UdpCounter::kLostOther: return "udp_lost_other";
    case UdpCounter::kSegmentsRefused: return "udp_segments_refused";
    case UdpCounter::kIcmpUnreachable: return "udp_icmp_unreachable";
    case UdpCounter::kIcmpTooBig: return "udp_icmp_too_big";
    case UdpCounter::kIcmpUnproven: return "udp_icmp_unproven";
    case UdpCounter::kWrongKey: return "udp_wrong_key";
    case UdpCounter::kStoppedMs: return "process_stopped_ms";
    case UdpCounter::kCount: break;
  }
  return "unknown";
}

using UdpCounters = Counters<UdpCounter>;

}  // namespace atp
