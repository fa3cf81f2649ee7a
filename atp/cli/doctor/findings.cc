#include "atp/cli/doctor/findings.h"

#include <fmt/core.h>

#include <algorithm>

#include "atp/cli/command/command.h"
#include "atp/wire/packet.h"

namespace atp {
namespace {

constexpr std::size_t kLeastMtu = 1500;
// Less than the time between events that people compare in logs, such as a second of waiting.
constexpr std::chrono::milliseconds kMaxClockDifference{100};

std::string host_of(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  return host.starts_with('[') ? host.substr(1, host.size() - 2) : host;
}
std::string port_of(const std::string& address) { return address.substr(address.rfind(':') + 1); }

double in_milliseconds(std::chrono::microseconds time) {
  return static_cast<double>(time.count()) / 1000;
}

Finding finding_of(const char* kind, const NodeFacts& node) {
  return {.kind = kind, .node = node.address};
}

Finding way_finding(const NodeFacts& node) {
  Finding finding = finding_of("route", node);
  if (!node.no_way) {
    finding.text =
        fmt::format("from {}{}", node.from, node.interface.empty() ? "" : " via " + node.interface);
    return finding;
  }
  finding.severity = Severity::kBad;
  finding.text = *node.no_way;
  finding.expected = "a route to " + host_of(node.address);
  finding.fix = fmt::format("correct the address, or add a route; check with: ip route get {}",
                            host_of(node.address));
  return finding;
}

std::string allow_commands(const NodeFacts& node, const std::string& host) {
  return fmt::format(
      "on {}: check nft list ruleset (or iptables -L -n); allow UDP port {} in, and replies out "
      "(docs/operate/operations.md#ports)",
      host, port_of(node.address));
}

// Names who reported that packets do not arrive.
void explain_refusal(const NodeFacts& node, Finding& finding) {
  const std::string host = host_of(node.address);
  const std::string port = port_of(node.address);
  switch (node.refused) {
    case Refused::kByThisHost:
      finding.text = "this host's own firewall blocks UDP to it";
      finding.fix = "check nft list ruleset (or iptables -L -n); allow UDP to port " + port;
      return;
    case Refused::kProhibited:
      finding.text = fmt::format("a firewall at {} rejects packets to it", node.refused_by);
      finding.fix = allow_commands(node, node.refused_by);
      return;
    case Refused::kUnreachable:
      finding.text = node.refused_by.empty() || node.refused_by == node.from
                         ? "no host in this network has that address"
                         : fmt::format("{} reports that {} is unreachable", node.refused_by, host);
      finding.fix =
          fmt::format("correct the address, or start {}; check with: ping {}; ip neigh show {}",
                      host, host, host);
      return;
    default: break;
  }
  if (node.tcp == TcpWord::kStatus || node.tcp == TcpWord::kClosed) {
    finding.text = "it is running and reachable over TCP, but a firewall rejects UDP";
    finding.fix = allow_commands(node, host);
    return;
  }
  finding.text = "the host is up, but nothing listens on that port";
  finding.fix = fmt::format(
      "start the atp switch or server there, or correct the port; on {}: ss -lun 'sport = :{}'",
      host, port);
}

void explain_silence(const NodeFacts& node, Finding& finding) {
  const std::string host = host_of(node.address);
  const std::string look = fmt::format("ss -lunp 'sport = :{}'", port_of(node.address));
  switch (node.tcp) {
    case TcpWord::kStatus:
    case TcpWord::kClosed:
      finding.text =
          "it is running and reachable over TCP, but UDP gets no reply: a firewall drops it";
      finding.fix = allow_commands(node, host + " and this host");
      return;
    case TcpWord::kSilence:
      finding.text =
          "its host accepts connections, but the process does not respond: it is stopped";
      finding.fix = fmt::format(
          "on {}: find its process with {}; kill -CONT PID, or restart it if that does not help",
          host, look);
      return;
    case TcpWord::kRefused:
      finding.text =
          "its host is up, but nothing listens on that port over TCP: it is not running (or it "
          "runs with --no-status behind a firewall that drops UDP)";
      finding.fix = fmt::format(
          "start the atp switch or server there, or correct the port; on {}: {}", host, look);
      return;
    default:
      finding.text =
          "no response from its host: it is down or cut off, or a firewall drops everything";
      finding.fix = fmt::format(
          "ping {}; then check on that host: {}; nft list ruleset (or iptables -L -n)", host, look);
  }
}

Finding answer_finding(const NodeFacts& node) {
  Finding finding = finding_of("answer", node);
  if (node.answers == 0) {
    finding.severity = Severity::kBad;
    finding.expected = "replies over UDP";
    node.refused == Refused::kNo ? explain_silence(node, finding) : explain_refusal(node, finding);
    return finding;
  }
  const auto& times = node.round_trips;
  finding.text = fmt::format(
      "{} of {} questions answered; round trip: median {:.2f} ms, maximum {:.2f} ms", node.answers,
      node.questions, in_milliseconds(times[times.size() / 2]), in_milliseconds(times.back()));
  if (node.answers == node.questions) return finding;
  finding.severity = Severity::kWarning;
  finding.expected = "all answered";
  finding.fix = fmt::format(
      "find where packets are lost: ping -f -c 1000 {}; ethtool -S {}; tc -s qdisc show dev {}",
      host_of(node.address), node.interface, node.interface);
  return finding;
}

Finding mtu_finding(const NodeFacts& node) {
  Finding finding = finding_of("mtu", node);
  if (!node.mtu_is_known) {
    finding.severity = Severity::kWarning;
    finding.text = "unknown: the node stopped answering even small packets";
    finding.expected = "replies over UDP";
    finding.fix =
        fmt::format("check whether {} is overloaded or was stopped: uptime; then run this again",
                    host_of(node.address));
    return finding;
  }
  finding.text = fmt::format("{} bytes", node.path_mtu);
  if (node.path_mtu < node.device_mtu) {
    finding.severity = Severity::kBad;
    finding.text =
        fmt::format("packets of up to {} bytes arrive, larger ones {}", node.path_mtu,
                    node.told_of_mtu ? "do not, according to a router" : "vanish silently");
    finding.expected = fmt::format("{} bytes, the MTU of {}", node.device_mtu, node.interface);
    finding.fix = fmt::format(
        "raise the MTU of the other links on the path, or lower it on each host of the job: "
        "ip link set dev {} mtu {}",
        node.interface, node.path_mtu);
  } else if (node.path_mtu < kLeastMtu) {
    finding.severity = Severity::kWarning;
    finding.expected = fmt::format("{} bytes; smaller packets cost more", kLeastMtu);
    finding.fix = fmt::format("ip link set dev {} mtu {}", node.interface, kLeastMtu);
  }
  return finding;
}

Finding bandwidth_finding(const NodeFacts& node) {
  Finding finding = finding_of("bandwidth", node);
  if (node.train_answers == node.train_packets) {
    finding.text = fmt::format("at least {:.0f} Mbit/s", node.mbit_per_s);
    return finding;
  }
  finding.severity = Severity::kWarning;
  finding.text = fmt::format("of {} full packets in short trains, {} were answered",
                             node.train_packets, node.train_answers);
  finding.text += "; a queue on the path, or the node's receive buffer, is too small";
  finding.expected = "all answered";
  finding.fix = fmt::format(
      "on {}: check nstat -az UdpRcvbufErrors; sysctl -w net.core.rmem_max=4194304 and restart the "
      "node; on the path: tc -s qdisc show, ethtool -S",
      host_of(node.address));
  return finding;
}

Finding version_finding(const NodeFacts& node) {
  Finding finding = finding_of("version", node);
  if (node.tcp != TcpWord::kStatus) {
    finding.text = fmt::format(
        "unknown: it does not answer `atp status` from this host (only with --status-from {})",
        node.from);
    return finding;
  }
  finding.text = fmt::format("{}, atp {}", node.role, node.version);
  if (node.wire_version != ATP_VERSION) {
    finding.severity = Severity::kBad;
    finding.text += fmt::format(", wire version {}", node.wire_version);
    finding.expected = fmt::format("wire version {}, as in this atp", ATP_VERSION);
  } else if (node.version != kProgramVersion) {
    finding.severity = Severity::kWarning;
    finding.expected = fmt::format("{}, the version of this atp", kProgramVersion);
  }
  if (finding.severity != Severity::kGood)
    finding.fix = "install the same atp version on all hosts";
  return finding;
}

Finding buffer_finding(const char* name, const char* limit, std::size_t wanted, std::size_t is) {
  Finding finding{.kind = name, .node = "", .text = fmt::format("{} bytes", is)};
  if (is >= wanted) return finding;
  finding.severity = Severity::kWarning;
  finding.expected = fmt::format("{} bytes; with less, this host loses bursts", wanted);
  finding.fix = fmt::format("sysctl -w {}={}", limit, wanted);
  return finding;
}

Finding own_clock_finding(const HostFacts& facts) {
  Finding finding;
  finding.kind = "clock";
  if (!facts.clock_is_known) {
    finding.text = "unknown: this process may not ask the kernel";
    return finding;
  }
  if (facts.clock_is_synchronized) {
    finding.text =
        fmt::format("synchronized; estimated error: {:.1f} ms", in_milliseconds(facts.clock_error));
    return finding;
  }
  finding.severity = Severity::kWarning;
  finding.text = "not synchronized, according to the kernel";
  finding.expected = "a synchronized clock, so that logs of several hosts are in order";
  finding.fix =
      "timedatectl set-ntp true (systemd-timesyncd), or start chronyd; check: timedatectl";
  return finding;
}

Finding clock_finding(const NodeFacts& node) {
  Finding finding = finding_of("clock", node);
  const auto& [ahead, uncertainty] = *node.clock;
  const auto distance = std::chrono::abs(ahead);
  finding.text =
      fmt::format("{:.1f} ms {} this host's, give or take {:.1f} ms", in_milliseconds(distance),
                  ahead.count() < 0 ? "behind" : "ahead of", in_milliseconds(uncertainty));
  if (distance <= kMaxClockDifference + uncertainty) return finding;
  finding.severity = Severity::kWarning;
  finding.expected = fmt::format("at most {:.0f} ms, so that logs of both hosts are in order",
                                 in_milliseconds(kMaxClockDifference));
  finding.fix = "on both hosts: timedatectl set-ntp true (systemd-timesyncd), or start chronyd";
  return finding;
}

void add_findings_of(const NodeFacts& node, std::vector<Finding>& findings) {
  findings.push_back(way_finding(node));
  if (node.no_way) return;
  findings.push_back(answer_finding(node));
  if (node.answers > 0) {
    findings.push_back(mtu_finding(node));
    if (node.mtu_is_known) findings.push_back(bandwidth_finding(node));
  }
  if (node.answers > 0 || node.tcp == TcpWord::kStatus) findings.push_back(version_finding(node));
  if (node.clock) findings.push_back(clock_finding(node));
}

}  // namespace

std::vector<Finding> findings_of(const HostFacts& facts) {
  std::vector<Finding> findings;
  findings.push_back(buffer_finding("receive buffer", "net.core.rmem_max", facts.wanted_buffer,
                                    facts.receive_buffer));
  findings.push_back(
      buffer_finding("send buffer", "net.core.wmem_max", facts.wanted_buffer, facts.send_buffer));
  findings.push_back(own_clock_finding(facts));
  for (const NodeFacts& node : facts.nodes) add_findings_of(node, findings);
  return findings;
}

}  // namespace atp
