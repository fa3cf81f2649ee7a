#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "atp/config/site/site_reader.h"

// For tests: the text of cluster files.

namespace atp {

inline constexpr const char* kThreeRacks = R"(name: three racks
links:
  host: {bandwidth: 10 Gbit/s per direction, latency: 5 us}
  rack: {bandwidth: 40 Gbit/s per direction}
racks:
  - name: a
    uplink: core
    switch: {host: a0, port: 6000, aggregators: 1024}
    hosts:
      - {name: a0, address: 10.0.1.1}
      - {name: a1, address: 10.0.1.2, ranks: 2, bandwidth: 1 GB/s per direction}
  - name: b
    uplink: {to: core, bandwidth: 20 Gbit/s per direction, latency: 2 us}
    hosts:
      - {name: b1, address: "fd00:0:0::1"}
  - name: s
    uplink: core
    switch: s1
    hosts:
      - {name: s1, address: 10.0.3.1}
      - {name: s2, address: 10.0.3.2, ranks: 1}
servers: [s1, {host: s2, port: 7000, window: 64, lease: 60}]
)";

inline Site site_of(const std::string& text) {
  Result<Site> site = parse_site(text, "f");
  EXPECT_TRUE(site) << site.error().message;
  return site ? std::move(site).value() : Site();
}

// A rack with one host of the same name at the address 10.0.0.N.
inline std::string rack_lines(const std::string& name, const std::string& uplink, int number,
                              bool has_switch = true) {
  return "  - name: " + name + "\n    uplink: " + uplink + "\n" +
         (has_switch ? "    switch: " + name + "\n" : "") + "    hosts: [{name: " + name +
         ", address: 10.0.0." + std::to_string(number) + ", ranks: 1}]\n";
}

// A rack with the hosts r1, r2, ... with a rank each, and s and p without. The switch is on the
// host `node` unless that is empty. All links have 1 GB/s.
inline std::string star_text(int ranks, const std::string& node, const std::string& servers) {
  std::string text = "links:\n  host: {bandwidth: 1 GB/s per direction}\nracks:\n  - name: a\n";
  if (!node.empty()) text += "    switch: " + node + "\n";
  text += "    hosts:\n";
  for (int rank = 1; rank <= ranks; ++rank) {
    const std::string number = std::to_string(rank);
    text += "      - {name: r" + number + ", address: 10.0.0." + number + ", ranks: 1}\n";
  }
  return text +
         "      - {name: s, address: 10.0.1.1, ranks: 0}\n"
         "      - {name: p, address: 10.0.1.2, ranks: 0}\nservers: " +
         servers + "\n";
}

// Racks a and b with two ranks and a switch host each, and rack p with one host. Hosts have 1 GB/s,
// uplinks half of that.
inline std::string two_racks_text(bool with_switches, const std::string& servers) {
  std::string text =
      "links:\n  host: {bandwidth: 1 GB/s per direction}\n"
      "  rack: {bandwidth: 0.5 GB/s per direction}\nracks:\n";
  for (const std::string name : {"a", "b"}) {
    const std::string address = ", address: 10.0." + std::to_string(name[0] - 'a') + ".";
    text += "  - name: " + name + "\n    uplink: core\n";
    if (with_switches) text += "    switch: " + name + "0\n";
    text += "    hosts:\n";
    for (const std::string number : {"0", "1", "2"}) {
      text += "      - {name: " + name + number + address + "1" + number +
              ", ranks: " + (number == "0" ? "0" : "1") + "}\n";
    }
  }
  return text + "  - {name: p, uplink: core, hosts: [{name: p, address: 10.0.9.9, ranks: 0}]}\n" +
         "servers: " + servers + "\n";
}

}  // namespace atp
