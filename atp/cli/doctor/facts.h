#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// What `atp doctor` learns about this host and the path to each node.

namespace atp {

// Why packets do not arrive, as reported by ICMP or by this host itself.
enum class Refused : std::uint8_t {
  kNo,
  kNobodyListens,  // reported by the node's host: port unreachable
  kUnreachable,    // reported by a host or router: network or host unreachable
  kProhibited,     // reported by a firewall
  kByThisHost,     // this host's own firewall
};

// The outcome of asking the node for its status over TCP, on the same port.
enum class TcpWord : std::uint8_t {
  kNotAsked,
  kStatus,   // it sent a status
  kClosed,   // it closed the connection: it runs, but does not answer this host
  kSilence,  // the kernel accepts the connection, the process sends nothing
  kRefused,  // nothing listens on the port
  kNothing,  // no response from the host
};

// A node's clock minus this host's: the truth is no further from `ahead` than `uncertainty`.
struct ClockDifference {
  std::chrono::microseconds ahead{};
  std::chrono::microseconds uncertainty{};
};

struct NodeFacts {
  std::string address;                // HOST:PORT
  std::optional<std::string> no_way;  // why this host cannot send there
  std::string from;                   // this host's address on the path
  std::string interface;              // and its interface; empty: unknown
  std::size_t device_mtu = 0;         // of the route and the interface
  std::size_t path_mtu = 0;           // the largest size that arrives
  bool told_of_mtu = false;           // reported by ICMP; else larger packets vanish silently
  bool mtu_is_known = true;           // else the node stopped answering meanwhile
  std::size_t questions = 0;
  std::size_t answers = 0;
  Refused refused = Refused::kNo;
  std::string refused_by;                              // the address that reported it
  std::vector<std::chrono::microseconds> round_trips;  // sorted
  // Trains of full packets, back to back; 0 packets: not tried.
  std::size_t train_packets = 0;
  std::size_t train_answers = 0;
  double mbit_per_s = 0;  // of the fastest fully answered train; 0: there was none
  TcpWord tcp = TcpWord::kNotAsked;
  // From the status.
  std::string role;
  std::string version;
  int wire_version = 0;
  std::optional<ClockDifference> clock;
};

struct HostFacts {
  std::size_t wanted_buffer = 0;
  std::size_t receive_buffer = 0;
  std::size_t send_buffer = 0;
  // What the kernel knows about its own clock; a sandbox may forbid the question.
  bool clock_is_known = true;
  bool clock_is_synchronized = false;
  std::chrono::microseconds clock_error{};  // the estimate of whoever synchronizes it
  std::vector<NodeFacts> nodes;
};

}  // namespace atp
