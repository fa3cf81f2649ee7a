#include "atp/config/interconnect/matrix_reader.h"

#include "atp/config/text/quantity.h"

namespace atp {
namespace {

using planner::BytesPerSecond;
using planner::MeasuredMesh;
using planner::PointToPointMatrix;

// Bytes per second per direction of 1 in the matrix.
double read_unit(const YamlValue& value) {
  constexpr std::string_view kExpected = "a unit and a direction such as \"GB/s per direction\"";
  const Parsed parsed = parse_bandwidth("1 " + value.text(kExpected));
  if (!parsed.problem.empty()) value.refuse(kExpected, parsed.advice);
  return parsed.value;
}

BytesPerSecond read_cell(const YamlValue& value, double unit, bool diagonal) {
  const double number = value.number("a bandwidth, in the unit above");
  if (diagonal) return {0};
  const double bandwidth = number * unit;
  if (number <= 0 || bandwidth > 1e18) {
    value.refuse("a bandwidth above 0, in the unit above",
                 "two devices without a link of their own have what the way between them carries");
  }
  return {bandwidth};
}

std::string square(std::uint32_t devices) {
  return std::to_string(devices) + " x " + std::to_string(devices);
}

std::uint32_t read_side(const YamlValue& value) {
  return static_cast<std::uint32_t>(value.count(1, planner::kMaxDevices));
}

}  // namespace

PointToPointMatrix read_matrix(const YamlValue& value, std::uint32_t devices) {
  const YamlMap map = value.map({"unit", "rows"}, "a map {unit, rows}");
  const double unit = read_unit(map.need("unit", "such as GB/s per direction"));
  const YamlValue rows_value = map.need("rows", "a list of " + std::to_string(devices) + " rows");
  const std::vector<YamlValue> rows = rows_value.list("a list of rows");
  const auto size_text = [](std::size_t size) { return std::to_string(size); };
  if (rows.size() != devices) {
    refuse(rows_value.place(), size_text(rows.size()) + " rows",
           size_text(devices) + ", a square matrix of all devices of the levels");
  }
  PointToPointMatrix matrix{.size = devices};
  for (std::size_t from = 0; from < rows.size(); ++from) {
    const std::vector<YamlValue> cells = rows[from].list("a list of bandwidths");
    if (cells.size() != devices) {
      refuse(rows[from].place(), size_text(cells.size()) + " columns",
             size_text(devices) + ", because the matrix is square, " + square(devices));
    }
    for (std::size_t to = 0; to < cells.size(); ++to) {
      matrix.bandwidth.push_back(read_cell(cells[to], unit, from == to));
    }
  }
  return matrix;
}

std::vector<MeasuredMesh> read_measured(const YamlValue& value, std::uint32_t devices) {
  std::vector<MeasuredMesh> meshes;
  for (const YamlValue& item : value.list("a list of {mesh, dimension1, dimension2}")) {
    const YamlMap map = item.map({"mesh", "dimension1", "dimension2"}, "{mesh, dimension1, ...}");
    const YamlValue sides_value = map.need("mesh", "[d1, d2]");
    const std::vector<YamlValue> sides = sides_value.list("[d1, d2]");
    if (sides.size() != 2) sides_value.refuse("[d1, d2]");
    MeasuredMesh measured{.mesh = {read_side(sides[0]), read_side(sides[1])}};
    const std::string mesh_text =
        std::to_string(measured.mesh.d1) + " x " + std::to_string(measured.mesh.d2);
    if (measured.mesh.size() != devices) {
      refuse(sides_value.place(), mesh_text + " = " + std::to_string(measured.mesh.size()),
             "d1 x d2 = " + std::to_string(devices) + ", the devices of the levels");
    }
    for (const MeasuredMesh& earlier : meshes) {
      if (earlier.mesh == measured.mesh) {
        throw FileError(sides_value.place(), "the mesh " + mesh_text + " stands here twice");
      }
    }
    const auto rate = [&](std::string_view key, std::uint32_t side) -> BytesPerSecond {
      const auto given = map.find(key);
      if (!given && side == 1) return {};
      if (side == 1) {
        throw FileError(given->place(),
                        "a dimension of one rank has nothing to measure; remove it");
      }
      return {read_rate(map.need(key, kRateExpected))};
    };
    measured.dimension1 = rate("dimension1", measured.mesh.d1);
    measured.dimension2 = rate("dimension2", measured.mesh.d2);
    meshes.push_back(measured);
  }
  return meshes;
}

}  // namespace atp
