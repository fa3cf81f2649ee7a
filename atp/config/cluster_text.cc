#include <string>

#include "atp/config/cluster_file.h"
#include "atp/config/plain_text.h"
#include "atp/config/quantity.h"

namespace atp {
namespace {

using planner::Aggregation;
using planner::Level;
using planner::PointToPointMatrix;
using planner::ServerPlacement;

// In double quotes whatever it holds, so that "yes", "2" and "a: b" stay text.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : made_plain(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string decimal(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string aggregation_lines(const Aggregation& aggregation) {
  std::string text = "    aggregation:\n";
  const auto line = [&](const std::string& key, const std::string& value) {
    text += "      " + key + ": " + value + "\n";
  };
  line("payload_bytes", std::to_string(aggregation.payload_bytes));
  line("header_bytes", std::to_string(aggregation.header_bytes));
  if (aggregation.wire_bytes_per_value > 0) {
    line("wire_bytes_per_value", decimal(aggregation.wire_bytes_per_value));
  }
  if (aggregation.slots > 0) line("slots", std::to_string(aggregation.slots));
  if (aggregation.window > 0) line("window", std::to_string(aggregation.window));
  line("servers",
       aggregation.placement == ServerPlacement::kDedicated ? "dedicated" : "co-located");
  if (aggregation.server_hosts > 0) line("server_hosts", std::to_string(aggregation.server_hosts));
  if (aggregation.server_bandwidth.is_positive()) {
    line("server_bandwidth", bandwidth_text(aggregation.server_bandwidth.value));
  }
  if (aggregation.fallback_share) line("fallback_share", decimal(*aggregation.fallback_share));
  return text;
}

std::string level_lines(const Level& level) {
  std::string text = "  - name: " + quoted(level.name) + "\n";
  text += "    count: " + std::to_string(level.count) + "\n";
  text += "    kind: " + std::string(planner::to_string(level.kind)) + "\n";
  text += "    bandwidth: " + bandwidth_text(level.bandwidth.value) + "\n";
  if (level.latency_s > 0) text += "    latency: " + duration_text(level.latency_s) + "\n";
  if (level.aggregation) text += aggregation_lines(*level.aggregation);
  return text;
}

std::string matrix_lines(const PointToPointMatrix& matrix) {
  std::string text = "point_to_point:\n  unit: GB/s per direction\n  rows:\n";
  for (std::uint32_t from = 0; from < matrix.size; ++from) {
    text += "    - [";
    for (std::uint32_t to = 0; to < matrix.size; ++to) {
      text += (to == 0 ? "" : ", ") + decimal(from == to ? 0 : matrix.at(from, to).value / 1e9);
    }
    text += "]\n";
  }
  return text;
}

}  // namespace

std::string cluster_text(const planner::Interconnect& interconnect,
                         const std::vector<std::string>& remarks) {
  std::string text;
  for (const std::string& remark : remarks) text += "# " + remark + "\n";
  if (!interconnect.name.empty()) text += "name: " + quoted(interconnect.name) + "\n";
  text += "levels:\n";
  for (const Level& level : interconnect.levels) text += level_lines(level);
  if (interconnect.point_to_point) text += matrix_lines(*interconnect.point_to_point);
  if (interconnect.measured.empty()) return text;
  text += "measured:\n";
  for (const planner::MeasuredMesh& measured : interconnect.measured) {
    text += "  - mesh: [" + std::to_string(measured.mesh.d1) + ", " +
            std::to_string(measured.mesh.d2) + "]\n";
    if (measured.dimension1.is_positive()) {
      text += "    dimension1: " + rate_text(measured.dimension1.value) + "\n";
    }
    if (measured.dimension2.is_positive()) {
      text += "    dimension2: " + rate_text(measured.dimension2.value) + "\n";
    }
  }
  return text;
}

}  // namespace atp
