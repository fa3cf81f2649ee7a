#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "atp/config/site/job_placement.h"
#include "atp/config/site/site.h"

// What one all-reduce of a job sends over every link of a site. The planner's link loads are those
// of equal levels whose switches never limit; here each switch and server has the link of the host
// that it runs on, and so a plain host among equals shows as the bottleneck that it is.
//
// The unit is one rank's tensor. A link carries as much in one direction as in the other: in the
// network a sum comes back wherever gradients went, and a ring leaves whatever it enters. Every
// link is busy at once, so the fullest one bounds the time. Latencies, fragments that meet others
// in an aggregator, the exponents of blocks (0.2 %) and TCP's acknowledgements are not counted.

namespace atp {

// A full packet of the aggregation protocol on Ethernet (docs/protocol.md §3): 350 values, behind
// our header and bitmap, behind those of UDP, IP and Ethernet.
inline constexpr std::uint32_t kPacketPayloadBytes = 1400;
inline constexpr std::uint32_t kPacketOwnHeaderBytes = 48;
inline constexpr std::uint32_t kPacketHeaderBytes = kPacketOwnHeaderBytes + 66;

// Bytes on the wire for each byte of a tensor: in our packets, and in a ring's over TCP, whose
// segments of 1,448 bytes stand behind timestamps and the headers of TCP, IP and Ethernet.
inline constexpr double kNetworkFraming =
    1.0 * (kPacketPayloadBytes + kPacketHeaderBytes) / kPacketPayloadBytes;
inline constexpr double kRingFraming = 1538.0 / 1448;

// Tensors over each link, in each direction.
struct LinkTraffic {
  std::vector<double> hosts;    // by host: its link to the rack's network
  std::vector<double> uplinks;  // by rack
  double framing = 1;
};

// Through the switches on the way, to servers that have equal parts of the tensor.
LinkTraffic network_traffic(const Site& site, const JobPlacement& placement);
// From rank to rank in the order of the placement. Inside a host no link is used.
LinkTraffic ring_traffic(const Site& site, const JobPlacement& placement);

struct SiteBottleneck {
  std::optional<std::uint32_t> host;  // whose link it is
  std::optional<std::uint32_t> rack;  // or whose uplink
  double tensors = 0;
  double bandwidth = 0;         // bytes per second in each direction
  double seconds_per_byte = 0;  // of a rank's tensor, framing included
};

// The link that takes longest; none of them where nothing is sent. Throws FileError where a link
// that is used has no bandwidth.
SiteBottleneck slowest_link(const Site& site, const LinkTraffic& traffic);

// The least seconds per byte of any sums in the network: each rank's tensor crosses its host's link
// once.
double line_rate(const Site& site, const JobPlacement& placement);

}  // namespace atp
