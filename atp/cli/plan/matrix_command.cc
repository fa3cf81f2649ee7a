#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "atp/cli/command.h"
#include "atp/cli/plan/chart.h"
#include "atp/cli/plan/output_file.h"
#include "atp/cli/plan/plan_command.h"
#include "atp/cli/plan/text_table.h"
#include "atp/config/cluster_file.h"
#include "atp/planner/communication_matrix.h"

namespace atp {
namespace {

using planner::CommunicationLayer;

constexpr const char* kExamples = R"(Examples:
  atp plan matrix --topology examples/topologies/fig7a.yaml
  atp plan matrix --topology examples/topologies/fig7b.yaml --svg fig7b.svg)";

struct MatrixOptions {
  std::string topology_file;
  bool csv = false;
  std::string svg_file;
};

// What is printed of a level: beyond this many children a matrix is no help.
constexpr std::uint32_t kMostPrinted = 32;

std::string gigabytes(planner::BytesPerSecond rate) {
  return fmt::format("{:.6g}", rate.value / 1e9);
}

std::vector<std::string> row_of(const CommunicationLayer& layer, std::uint32_t from) {
  std::vector<std::string> row{std::to_string(from)};
  for (std::uint32_t to = 0; to < layer.count; ++to) {
    row.push_back(from == to ? "-" : gigabytes(layer.at(from, to)));
  }
  row.push_back(gigabytes(layer.group));
  return row;
}

TextTable table_of(const CommunicationLayer& layer) {
  std::vector<std::string> header{"from"};
  for (std::uint32_t to = 0; to < layer.count; ++to) header.push_back(std::to_string(to));
  header.emplace_back("group");
  TextTable table(header);
  for (std::uint32_t from = 0; from < layer.count; ++from) table.add(row_of(layer, from));
  return table;
}

TextTable csv_of(const planner::CommunicationMatrix& matrix) {
  TextTable table({"layer", "name", "from", "to", "bytes_per_second"});
  for (std::size_t i = 0; i < matrix.layers.size(); ++i) {
    const CommunicationLayer& layer = matrix.layers[i];
    const std::string number = std::to_string(i + 1);
    for (std::uint32_t from = 0; from < layer.count; ++from) {
      for (std::uint32_t to = 0; to < layer.count; ++to) {
        if (from == to) continue;
        table.add({number, layer.name, std::to_string(from), std::to_string(to),
                   fmt::format("{}", layer.at(from, to).value)});
      }
      table.add({number, layer.name, std::to_string(from), "group",
                 fmt::format("{}", layer.group.value)});
    }
  }
  return table;
}

// All layers in one grid, one below the other.
GridChart chart_of(const planner::Interconnect& interconnect,
                   const planner::CommunicationMatrix& matrix) {
  GridChart chart{.title = "Hierarchical communication matrix: " + interconnect.name,
                  .subtitle = "GB/s in one direction; darker is faster",
                  .x_label = "to",
                  .y_label = "from"};
  double most = 0;
  std::uint32_t widest = 0;
  for (const CommunicationLayer& layer : matrix.layers) {
    most = std::max(most, layer.group.value);
    widest = std::max(widest, std::min(layer.count, kMostPrinted));
  }
  for (std::uint32_t to = 0; to < widest; ++to) chart.columns.push_back(std::to_string(to));
  chart.columns.emplace_back("group");
  for (const CommunicationLayer& layer : matrix.layers) {
    for (std::uint32_t from = 0; from < std::min(layer.count, kMostPrinted); ++from) {
      std::vector<Cell> row(widest + 1);
      for (std::uint32_t to = 0; to < std::min(layer.count, kMostPrinted); ++to) {
        if (from == to) continue;
        row[to] = {gigabytes(layer.at(from, to)), layer.at(from, to).value / most, 0};
      }
      row[widest] = {gigabytes(layer.group), layer.group.value / most, 2};
      chart.rows.push_back(fmt::format("{} {}", layer.name, from));
      chart.cells.push_back(std::move(row));
    }
  }
  return chart;
}

void print_layers(const planner::CommunicationMatrix& matrix) {
  for (std::size_t i = 0; i < matrix.layers.size(); ++i) {
    const CommunicationLayer& layer = matrix.layers[i];
    fmt::print("Layer {}: {} x {} of {} device{} each, GB/s in one direction\n", i + 1, layer.count,
               layer.name, layer.devices_per_child, layer.devices_per_child == 1 ? "" : "s");
    if (layer.count > kMostPrinted) {
      fmt::print("  {} children, too many to print; group {}\n", layer.count,
                 gigabytes(layer.group));
    } else {
      fmt::print("{}", table_of(layer).text());
    }
    if (i + 1 < matrix.layers.size()) fmt::print("\n");
  }
}

void run_matrix(const MatrixOptions& options) {
  const Result<Cluster> cluster = read_cluster(options.topology_file);
  if (!cluster) throw CommandError(cluster.error().message, kWrongUsage);
  const planner::Interconnect& interconnect = cluster.value().interconnect;
  const Result<planner::CommunicationMatrix> matrix = planner::communication_matrix(interconnect);
  if (!matrix) throw CommandError(matrix.error().message);
  if (options.csv) {
    fmt::print("{}", csv_of(matrix.value()).csv());
  } else {
    print_layers(matrix.value());
  }
  if (!options.svg_file.empty()) {
    write_output_file(options.svg_file, draw(chart_of(interconnect, matrix.value())));
  }
}

}  // namespace

void add_matrix_command(CLI::App& plan) {
  CLI::App* command = plan.add_subcommand(
      "matrix", "The hierarchical communication matrix of a topology (Fig. 7 of the paper)");
  command->footer(kExamples);
  const auto options = std::make_shared<MatrixOptions>();
  command->add_option("--topology", options->topology_file, "Cluster file")
      ->required()
      ->type_name("FILE");
  command->add_flag("--csv", options->csv, "Print CSV");
  command->add_option("--svg", options->svg_file, "Also draw it into this file")->type_name("FILE");
  command->callback([options] { run_matrix(*options); });
}

}  // namespace atp
