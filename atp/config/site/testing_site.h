#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "atp/config/site/site_reader.h"

// For tests: sites as a file lists them.

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
servers: [s1, {host: s2, port: 7000, window: 64}]
)";

inline Site site_of(const std::string& text) {
  Result<Site> site = parse_site(text, "f");
  EXPECT_TRUE(site) << site.error().message;
  return site ? std::move(site).value() : Site();
}

// A rack with one host of the same name, on the address 10.0.0.N.
inline std::string rack_lines(const std::string& name, const std::string& uplink, int number,
                              bool has_switch = true) {
  return "  - name: " + name + "\n    uplink: " + uplink + "\n" +
         (has_switch ? "    switch: " + name + "\n" : "") + "    hosts: [{name: " + name +
         ", address: 10.0.0." + std::to_string(number) + ", ranks: 1}]\n";
}

}  // namespace atp
