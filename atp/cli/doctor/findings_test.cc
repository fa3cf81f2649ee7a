#include "atp/cli/doctor/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "atp/cli/command/command.h"
#include "atp/wire/packet.h"

namespace atp {
namespace {

using std::chrono::microseconds;
using testing::HasSubstr;

HostFacts sound() {
  return {.wanted_buffer = 1000,
          .receive_buffer = 1000,
          .send_buffer = 2000,
          .clock_is_synchronized = true,
          .clock_error = microseconds(800),
          .nodes = {{.address = "10.0.0.9:5500",
                     .no_way = {},
                     .from = "10.0.1.2",
                     .interface = "eth0",
                     .device_mtu = 9000,
                     .path_mtu = 9000,
                     .questions = 3,
                     .answers = 3,
                     .refused_by = {},
                     .round_trips = {microseconds(100), microseconds(200), microseconds(900)},
                     .train_packets = 40,
                     .train_answers = 40,
                     .mbit_per_s = 940,
                     .tcp = TcpWord::kStatus,
                     .role = "server",
                     .version = kProgramVersion,
                     .wire_version = ATP_VERSION,
                     .clock = ClockDifference{microseconds(-60'000), microseconds(300)}}}};
}

TEST(Findings, AreAllFineOnASoundHost) {
  const auto findings = findings_of(sound());
  EXPECT_EQ(findings.size(), 9U);
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.severity, Severity::kGood) << finding.kind << ": " << finding.text;
    EXPECT_EQ(finding.fix, "");
  }
  EXPECT_EQ(worst_of(findings), Severity::kGood);
}

struct Case {
  const char* name;
  std::function<void(HostFacts&)> spoil;
  Severity severity;
  const char* check;
  const char* found;
  const char* fix;
};

// A node that did not answer over UDP.
std::function<void(HostFacts&)> refused(Refused refused, TcpWord tcp) {
  return [=](HostFacts& facts) {
    NodeFacts& node = facts.nodes[0];
    node.answers = 0;
    node.round_trips.clear();
    node.refused = refused;
    node.refused_by = "10.0.0.7";
    node.tcp = tcp;
  };
}

class FindingsOf : public testing::TestWithParam<Case> {};

// One thing is wrong, and exactly that is found.
TEST_P(FindingsOf, SayWhatIsWrongAndHowToFixIt) {
  HostFacts facts = sound();
  GetParam().spoil(facts);
  const auto findings = findings_of(facts);
  EXPECT_EQ(worst_of(findings), GetParam().severity);
  std::size_t bad = 0;
  for (const Finding& finding : findings) {
    if (finding.severity == Severity::kGood) continue;
    ++bad;
    EXPECT_EQ(finding.kind, GetParam().check);
    EXPECT_THAT(finding.text, HasSubstr(GetParam().found));
    EXPECT_NE(finding.expected, "");
    EXPECT_THAT(finding.fix, HasSubstr(GetParam().fix));
  }
  EXPECT_EQ(bad, 1U);
}

INSTANTIATE_TEST_SUITE_P(
    Each, FindingsOf,
    testing::Values(
        Case{"ReceiveBuffer", [](HostFacts& f) { f.receive_buffer = 999; }, Severity::kWarning,
             "receive buffer", "999 bytes", "sysctl -w net.core.rmem_max=1000"},
        Case{"SendBuffer", [](HostFacts& f) { f.send_buffer = 999; }, Severity::kWarning,
             "send buffer", "999 bytes", "sysctl -w net.core.wmem_max=1000"},
        Case{"NobodySynchronizesTheClock", [](HostFacts& f) { f.clock_is_synchronized = false; },
             Severity::kWarning, "clock", "not synchronized", "timedatectl set-ntp true"},
        Case{"AnotherClockAtTheNode",
             [](HostFacts& f) { f.nodes[0].clock->ahead = microseconds(-3'000'000); },
             Severity::kWarning, "clock", "3000.0 ms behind this host's, give or take 0.3 ms",
             "on both hosts: timedatectl set-ntp true"},
        Case{"NoRoute", [](HostFacts& f) { f.nodes[0].no_way = "no route to host"; },
             Severity::kBad, "route", "no route to host", "ip route get 10.0.0.9"},
        Case{"NobodyListens", refused(Refused::kNobodyListens, TcpWord::kRefused), Severity::kBad,
             "answer", "nothing listens", "ss -lun 'sport = :5500'"},
        Case{"AFirewallThatRejectsAsPortUnreachable",
             refused(Refused::kNobodyListens, TcpWord::kClosed), Severity::kBad, "answer",
             "a firewall rejects UDP", "allow UDP port 5500 in"},
        Case{"AFirewallThatReportsItself", refused(Refused::kProhibited, TcpWord::kNothing),
             Severity::kBad, "answer", "a firewall at 10.0.0.7 rejects packets to it",
             "on 10.0.0.7: check nft"},
        Case{"ThisHostsFirewall", refused(Refused::kByThisHost, TcpWord::kNothing), Severity::kBad,
             "answer", "this host's own firewall", "allow UDP to port 5500"},
        Case{"AnUnusedAddress", refused(Refused::kUnreachable, TcpWord::kNothing), Severity::kBad,
             "answer", "10.0.0.7 reports that 10.0.0.9 is unreachable", "ping 10.0.0.9"},
        Case{"AFirewallThatDropsUdp", refused(Refused::kNo, TcpWord::kClosed), Severity::kBad,
             "answer", "a firewall drops it", "allow UDP port 5500 in"},
        Case{"AStoppedNode", refused(Refused::kNo, TcpWord::kSilence), Severity::kBad, "answer",
             "it is stopped", "kill -CONT PID"},
        Case{"NoNodeAndNoReply", refused(Refused::kNo, TcpWord::kRefused), Severity::kBad, "answer",
             "nothing listens on that port over TCP", "ss -lunp 'sport = :5500'"},
        Case{"ADeadHost", refused(Refused::kNo, TcpWord::kNothing), Severity::kBad, "answer",
             "no response from its host", "ping 10.0.0.9"},
        Case{"Loss", [](HostFacts& f) { f.nodes[0].answers = 2; }, Severity::kWarning, "answer",
             "2 of 3", "ethtool -S eth0"},
        Case{"NarrowPath", [](HostFacts& f) { f.nodes[0].path_mtu = 1500; }, Severity::kBad, "mtu",
             "packets of up to 1500 bytes arrive, larger ones vanish",
             "ip link set dev eth0 mtu 1500"},
        Case{"ANodeThatStoppedAnswering", [](HostFacts& f) { f.nodes[0].mtu_is_known = false; },
             Severity::kWarning, "mtu", "unknown: the node stopped answering", "uptime"},
        Case{"BurstsAreLost", [](HostFacts& f) { f.nodes[0].train_answers = 31; },
             Severity::kWarning, "bandwidth", "of 40 full packets in short trains, 31",
             "on 10.0.0.9: check nstat"},
        Case{"SmallMtu", [](HostFacts& f) { f.nodes[0].path_mtu = f.nodes[0].device_mtu = 1400; },
             Severity::kWarning, "mtu", "1400 bytes", "mtu 1500"},
        Case{"OtherWireVersion", [](HostFacts& f) { f.nodes[0].wire_version = ATP_VERSION + 1; },
             Severity::kBad, "version", "wire version", "the same atp version on all hosts"},
        Case{"OtherVersion", [](HostFacts& f) { f.nodes[0].version = "0.0.1"; }, Severity::kWarning,
             "version", "atp 0.0.1", "the same atp version on all hosts"}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(Findings, AClockThatThisProcessMayNotAskAboutIsNotAFault) {
  HostFacts facts = sound();
  facts.clock_is_known = facts.clock_is_synchronized = false;
  EXPECT_EQ(worst_of(findings_of(facts)), Severity::kGood);
}

TEST(Findings, ANodeThatHidesItsStatusIsNotAFault) {
  HostFacts facts = sound();
  facts.nodes[0].tcp = TcpWord::kClosed;
  const auto findings = findings_of(facts);
  EXPECT_EQ(worst_of(findings), Severity::kGood);
  for (const Finding& finding : findings) EXPECT_EQ(finding.fix, "") << finding.kind;
}

}  // namespace
}  // namespace atp
