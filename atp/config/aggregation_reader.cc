#include "atp/config/aggregation_reader.h"

#include "atp/config/quantity.h"

namespace atp {
namespace {

using planner::Aggregation;
using planner::ServerPlacement;

constexpr int kMost = 1 << 30;

std::uint32_t read_count(const YamlMap& map, std::string_view key, int least,
                         std::uint32_t fallback) {
  const auto value = map.find(key);
  return value ? static_cast<std::uint32_t>(value->count(least, kMost)) : fallback;
}

double read_share(const YamlValue& value) {
  const double share = value.number("a number from 0 to 1");
  if (share < 0 || share > 1) value.refuse("a number from 0 to 1");
  return share;
}

double read_value_bytes(const YamlValue& value) {
  const double bytes = value.number("the bytes of one value, such as 4");
  if (bytes <= 0 || bytes > 64) value.refuse("a number above 0, at most 64");
  return bytes;
}

void read_servers(const YamlMap& map, Aggregation& aggregation) {
  if (const auto servers = map.find("servers")) {
    aggregation.placement = servers->one_of({"dedicated", "co-located"}) == "dedicated"
                                ? ServerPlacement::kDedicated
                                : ServerPlacement::kCoLocated;
  }
  aggregation.server_hosts = read_count(map, "server_hosts", 1, 0);
  if (const auto bandwidth = map.find("server_bandwidth")) {
    if (aggregation.placement == ServerPlacement::kCoLocated) {
      throw FileError(bandwidth->place(),
                      "co-located servers use their workers' links; remove the key, or write "
                      "servers: dedicated");
    }
    aggregation.server_bandwidth = {read_bandwidth(*bandwidth)};
  }
}

YamlMap map_of(const YamlValue& value) {
  return value.map({"payload_bytes", "header_bytes", "wire_bytes_per_value", "slots", "window",
                    "servers", "server_hosts", "server_bandwidth", "fallback_share"},
                   "a map, {} if everything is as usual");
}

}  // namespace

void check_server_hosts(const YamlValue& aggregation, std::uint64_t devices) {
  const auto hosts = map_of(aggregation).find("server_hosts");
  const bool too_many = read_aggregation(aggregation).server_hosts > devices;
  if (!too_many || read_aggregation(aggregation).placement == ServerPlacement::kDedicated) return;
  hosts->refuse("at most " + std::to_string(devices) +
                ", the devices under one switch: co-located servers are on them");
}

Aggregation read_aggregation(const YamlValue& value) {
  const YamlMap map = map_of(value);
  Aggregation aggregation;
  aggregation.payload_bytes = read_count(map, "payload_bytes", 1, aggregation.payload_bytes);
  aggregation.header_bytes = read_count(map, "header_bytes", 0, 0);
  if (const auto bytes = map.find("wire_bytes_per_value")) {
    aggregation.wire_bytes_per_value = read_value_bytes(*bytes);
  }
  aggregation.slots = read_count(map, "slots", 1, 0);
  aggregation.window = read_count(map, "window", 1, 0);
  if (aggregation.slots > 0 && aggregation.window == 0) {
    throw FileError(map.find("slots")->place(),
                    "slots alone say nothing; add window, the fragments that one group has in "
                    "flight");
  }
  if (aggregation.header_bytes > 0 && !map.find("payload_bytes")) {
    throw FileError(map.find("header_bytes")->place(),
                    "a header alone says nothing; add payload_bytes");
  }
  read_servers(map, aggregation);
  if (const auto share = map.find("fallback_share")) {
    aggregation.fallback_share = read_share(*share);
  }
  return aggregation;
}

}  // namespace atp
