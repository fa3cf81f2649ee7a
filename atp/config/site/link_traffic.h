#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "atp/config/site/job_placement.h"
#include "atp/config/site/site.h"

// The traffic of one all-reduce over every link of a site. In the planner, levels are regular. Here
// hosts and racks may differ, and each switch and server uses the link of its own host, so a switch
// on a host with an ordinary link shows up as the bottleneck that it is.
//
// The unit is one rank's tensor. A link carries the same traffic in both directions: in the network
// a sum comes back wherever gradients went, and a ring leaves every host it enters. All links are
// busy at the same time, so the fullest one bounds the time. Latencies, collisions, the exponents
// of blocks (0.2 %) and TCP's acknowledgements are not counted.

namespace atp {

// A full packet of the aggregation protocol on Ethernet (docs/inside/protocol §3): 350 values after
// our header and bitmap, and the headers of UDP, IP and Ethernet.
inline constexpr std::uint32_t kPacketPayloadBytes = 1400;
inline constexpr std::uint32_t kPacketOwnHeaderBytes = 48;
inline constexpr std::uint32_t kPacketHeaderBytes = kPacketOwnHeaderBytes + 66;

// Bytes on the wire per byte of a tensor: in our packets, and in a ring over TCP, whose segments of
// 1,448 bytes come with timestamps and the headers of TCP, IP and Ethernet.
inline constexpr double kNetworkFraming =
    1.0 * (kPacketPayloadBytes + kPacketHeaderBytes) / kPacketPayloadBytes;
inline constexpr double kRingFraming = 1538.0 / 1448;

// Tensors per link and direction.
struct LinkTraffic {
  std::vector<double> hosts;    // by host: on its link to the rack's network
  std::vector<double> uplinks;  // by rack
  double framing = 1;
};

// Through the switches on the route to servers, each of which has an equal part of the tensor.
LinkTraffic network_traffic(const Site& site, const JobPlacement& placement);
// From rank to rank in placement order. Inside a host no link is used.
LinkTraffic ring_traffic(const Site& site, const JobPlacement& placement);

struct SiteBottleneck {
  std::optional<std::uint32_t> host;  // whose link it is
  std::optional<std::uint32_t> rack;  // or whose uplink
  double tensors = 0;
  double bandwidth = 0;         // bytes per second in each direction
  double seconds_per_byte = 0;  // of a rank's tensor, framing included
};

// The link that takes longest; neither host nor rack if nothing is sent. Throws FileError if a used
// link has no bandwidth.
SiteBottleneck slowest_link(const Site& site, const LinkTraffic& traffic);

// The minimum seconds per byte for any in-network sums: each rank's tensor crosses its host's link
// once.
double line_rate(const Site& site, const JobPlacement& placement);

}  // namespace atp
