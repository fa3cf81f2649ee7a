#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// What `atp doctor` finds out about this host and the way to each node.

namespace atp {

// What ICMP, or this host itself, says of packets that do not arrive.
enum class Refused : std::uint8_t {
  kNo,
  kNobodyListens,  // the node's host: port unreachable
  kUnreachable,    // a host or a router: no way to that network or host
  kProhibited,     // a firewall that says so
  kByThisHost,     // this host's own firewall
};

// What comes of asking the node for its status, over TCP at the same port.
enum class TcpWord : std::uint8_t {
  kNotAsked,
  kStatus,   // a status
  kClosed,   // the connection is closed: it runs, and tells this host nothing
  kSilence,  // the kernel takes the connection, and the process says nothing
  kRefused,  // nobody listens there
  kNothing,  // no word from that host
};

struct NodeFacts {
  std::string address;                // HOST:PORT
  std::optional<std::string> no_way;  // why this host cannot send there
  std::string from;                   // this host's address on the way
  std::string interface;              // and its device; empty: not known
  std::size_t device_mtu = 0;         // what the route and the device carry
  std::size_t path_mtu = 0;           // what arrives
  bool told_of_mtu = false;           // ICMP says so; else larger packets vanish
  std::size_t questions = 0;
  std::size_t answers = 0;
  Refused refused = Refused::kNo;
  std::string refused_by;                              // the address that said so
  std::vector<std::chrono::microseconds> round_trips;  // sorted
  // Trains of full packets, back to back; 0 sent: not tried.
  std::size_t train_packets = 0;
  std::size_t train_answers = 0;
  double mbit_per_s = 0;  // of the best train that was answered whole; 0: none was
  TcpWord tcp = TcpWord::kNotAsked;
  // In the status.
  std::string role;
  std::string version;
  int wire_version = 0;
};

struct HostFacts {
  std::size_t wanted_buffer = 0;
  std::size_t receive_buffer = 0;
  std::size_t send_buffer = 0;
  std::vector<NodeFacts> nodes;
};

}  // namespace atp
