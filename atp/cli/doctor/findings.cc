#include "atp/cli/doctor/findings.h"

#include <fmt/core.h>

#include <algorithm>

#include "atp/cli/command/command.h"
#include "atp/wire/packet.h"

namespace atp {
namespace {

constexpr std::size_t kLeastMtu = 1500;

std::string host_of(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  return host.starts_with('[') ? host.substr(1, host.size() - 2) : host;
}
std::string port_of(const std::string& address) { return address.substr(address.rfind(':') + 1); }

double milliseconds(std::chrono::microseconds time) {
  return static_cast<double>(time.count()) / 1000;
}

Finding finding_of(const char* check, const NodeFacts& node) {
  Finding finding;
  finding.check = check;
  finding.node = node.address;
  return finding;
}

Finding way_finding(const NodeFacts& node) {
  Finding finding = finding_of("route", node);
  if (!node.no_way) {
    finding.found =
        fmt::format("from {}{}", node.from, node.interface.empty() ? "" : " by " + node.interface);
    return finding;
  }
  finding.verdict = Verdict::kWrong;
  finding.found = *node.no_way;
  finding.expected = "a route to " + host_of(node.address);
  finding.mend =
      fmt::format("correct the address, or add the route: ip route get {}", host_of(node.address));
  return finding;
}

std::string allow_commands(const NodeFacts& node, const std::string& host) {
  return fmt::format(
      "on {}: nft list ruleset (or iptables -L -n); let UDP port {} in, and answers out "
      "(docs/operations.md#ports)",
      host, port_of(node.address));
}

// Who said that packets do not get there.
void explain_refusal(const NodeFacts& node, Finding& finding) {
  const std::string host = host_of(node.address);
  const std::string port = port_of(node.address);
  switch (node.refused) {
    case Refused::kByThisHost:
      finding.found = "this host's own firewall does not let UDP out to it";
      finding.mend = "nft list ruleset (or iptables -L -n): accept UDP to port " + port;
      return;
    case Refused::kProhibited:
      finding.found = fmt::format("a firewall at {} refuses it", node.refused_by);
      finding.mend = allow_commands(node, node.refused_by);
      return;
    case Refused::kUnreachable:
      finding.found =
          node.refused_by.empty() || node.refused_by == node.from
              ? "nobody in this host's network has that address"
              : fmt::format("{} says that there is no way to {}", node.refused_by, host);
      finding.mend = fmt::format("correct the address, or start {}: ping {}; ip neigh show {}",
                                 host, host, host);
      return;
    default: break;
  }
  if (node.tcp == TcpWord::kStatus || node.tcp == TcpWord::kClosed) {
    finding.found = "it runs, it can be reached by TCP, and UDP is refused: by a firewall";
    finding.mend = allow_commands(node, host);
    return;
  }
  finding.found = "the host is there, and nobody listens at that port";
  finding.mend = fmt::format(
      "start the atp switch or server there, or correct the port; on {}: ss -lun 'sport = :{}'",
      host, port);
}

void explain_silence(const NodeFacts& node, Finding& finding) {
  const std::string host = host_of(node.address);
  const std::string look = fmt::format("ss -lunp 'sport = :{}'", port_of(node.address));
  switch (node.tcp) {
    case TcpWord::kStatus:
    case TcpWord::kClosed:
      finding.found =
          "it runs and can be reached by TCP, but no UDP comes back: a firewall drops it";
      finding.mend = allow_commands(node, host + " and this host");
      return;
    case TcpWord::kSilence:
      finding.found = "its host takes connections for it, but it says nothing: it is stopped";
      finding.mend = fmt::format(
          "on {}: {} shows its process; kill -CONT PID, or start it again if that does not help",
          host, look);
      return;
    case TcpWord::kRefused:
      finding.found =
          "its host is there, and nobody listens at that port by TCP: it does not run there (or "
          "with --no-status, behind a firewall that drops UDP)";
      finding.mend = fmt::format(
          "start the atp switch or server there, or correct the port; on {}: {}", host, look);
      return;
    default:
      finding.found = "no word from its host: that is down or cut off, or a firewall drops all";
      finding.mend =
          fmt::format("ping {}; then on it: {}; nft list ruleset (or iptables -L -n)", host, look);
  }
}

Finding answer_finding(const NodeFacts& node) {
  Finding finding = finding_of("answer", node);
  if (node.answers == 0) {
    finding.verdict = Verdict::kWrong;
    finding.expected = "answers to UDP";
    node.refused == Refused::kNo ? explain_silence(node, finding) : explain_refusal(node, finding);
    return finding;
  }
  const auto& times = node.round_trips;
  finding.found = fmt::format("{} of {} questions; round trip {:.2f} ms, at most {:.2f} ms",
                              node.answers, node.questions, milliseconds(times[times.size() / 2]),
                              milliseconds(times.back()));
  if (node.answers == node.questions) return finding;
  finding.verdict = Verdict::kWarning;
  finding.expected = "all answered";
  finding.mend = fmt::format(
      "packets are lost on the way: ping -f -c 1000 {}; ethtool -S {}; tc -s qdisc show dev {}",
      host_of(node.address), node.interface, node.interface);
  return finding;
}

Finding mtu_finding(const NodeFacts& node) {
  Finding finding = finding_of("mtu", node);
  finding.found = fmt::format("{} bytes", node.path_mtu);
  if (node.path_mtu < node.device_mtu) {
    finding.verdict = Verdict::kWrong;
    finding.found =
        fmt::format("packets of {} bytes arrive, larger ones {}", node.path_mtu,
                    node.told_of_mtu ? "do not, as a router says" : "vanish without a word");
    finding.expected = fmt::format("{} bytes, as {} has", node.device_mtu, node.interface);
    finding.mend = fmt::format(
        "raise the MTU of the way's other links, or on each host of the job: ip link set dev {} "
        "mtu {}",
        node.interface, node.path_mtu);
  } else if (node.path_mtu < kLeastMtu) {
    finding.verdict = Verdict::kWarning;
    finding.expected = fmt::format("{} bytes: smaller packets cost more", kLeastMtu);
    finding.mend = fmt::format("ip link set dev {} mtu {}", node.interface, kLeastMtu);
  }
  return finding;
}

Finding bandwidth_finding(const NodeFacts& node) {
  Finding finding = finding_of("bandwidth", node);
  if (node.train_answers == node.train_packets) {
    finding.found = fmt::format("at least {:.0f} Mbit/s", node.mbit_per_s);
    return finding;
  }
  finding.verdict = Verdict::kWarning;
  finding.found = fmt::format("of {} full packets in short trains {} were answered",
                              node.train_packets, node.train_answers);
  finding.expected = "all answered: a queue on the way, or the node's receive buffer, is short";
  finding.mend = fmt::format(
      "on {}: nstat -az UdpRcvbufErrors; sysctl -w net.core.rmem_max=4194304 and start the node "
      "again; on the way: tc -s qdisc show, ethtool -S",
      host_of(node.address));
  return finding;
}

Finding version_finding(const NodeFacts& node) {
  Finding finding = finding_of("version", node);
  if (node.tcp != TcpWord::kStatus) {
    finding.found = "not known: it tells this host nothing about itself";
    finding.mend = fmt::format("ask on its own host, or start it with --status-from {}", node.from);
    return finding;
  }
  finding.found = fmt::format("{}, atp {}", node.role, node.version);
  if (node.wire_version != ATP_VERSION) {
    finding.verdict = Verdict::kWrong;
    finding.found += fmt::format(", wire version {}", node.wire_version);
    finding.expected = fmt::format("wire version {}, as this atp", ATP_VERSION);
  } else if (node.version != kProgramVersion) {
    finding.verdict = Verdict::kWarning;
    finding.expected = fmt::format("{}, as this atp", kProgramVersion);
  }
  if (finding.verdict != Verdict::kFine) finding.mend = "use the same atp on all hosts";
  return finding;
}

Finding buffer_finding(const char* name, const char* limit, std::size_t wanted, std::size_t is) {
  Finding finding;
  finding.check = name;
  finding.found = fmt::format("{} bytes", is);
  if (is >= wanted) return finding;
  finding.verdict = Verdict::kWarning;
  finding.expected = fmt::format("{} bytes: with less, bursts are lost in this host", wanted);
  finding.mend = fmt::format("sysctl -w {}={}", limit, wanted);
  return finding;
}

void add_findings_of(const NodeFacts& node, std::vector<Finding>& findings) {
  findings.push_back(way_finding(node));
  if (node.no_way) return;
  findings.push_back(answer_finding(node));
  if (node.answers > 0) {
    findings.push_back(mtu_finding(node));
    findings.push_back(bandwidth_finding(node));
  }
  if (node.answers > 0 || node.tcp == TcpWord::kStatus) findings.push_back(version_finding(node));
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kFine: return "ok";
    case Verdict::kWarning: return "warning";
    case Verdict::kWrong: return "error";
  }
  return "";
}

std::vector<Finding> findings_of(const HostFacts& facts) {
  std::vector<Finding> findings;
  findings.push_back(buffer_finding("receive buffer", "net.core.rmem_max", facts.wanted_buffer,
                                    facts.receive_buffer));
  findings.push_back(
      buffer_finding("send buffer", "net.core.wmem_max", facts.wanted_buffer, facts.send_buffer));
  for (const NodeFacts& node : facts.nodes) add_findings_of(node, findings);
  return findings;
}

Verdict worst_of(const std::vector<Finding>& findings) {
  Verdict worst = Verdict::kFine;
  for (const Finding& finding : findings) worst = std::max(worst, finding.verdict);
  return worst;
}

}  // namespace atp
