#include <fmt/core.h>

#include <memory>

#include "atp/cli/command/command.h"
#include "atp/cli/command/text_table.h"
#include "atp/cli/plan/plan_command.h"
#include "atp/config/interconnect/interconnect_file.h"
#include "atp/planner/communication_matrix.h"

namespace atp {
namespace {

using planner::CommunicationLayer;

constexpr const char* kMatrixExamples = R"(Examples:
  atp plan matrix --cluster examples/clusters/fig7a.yaml
  atp plan matrix --cluster examples/clusters/fig7b.yaml --csv)";

struct MatrixOptions {
  std::string cluster_file;
  bool csv = false;
};

// A matrix with more children than this would be unreadable.
constexpr std::uint32_t kMaxPrintedRows = 32;

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

void print_layers(const planner::CommunicationMatrix& matrix) {
  for (std::size_t i = 0; i < matrix.layers.size(); ++i) {
    const CommunicationLayer& layer = matrix.layers[i];
    fmt::print("Layer {}: {} x {} of {} device{} each, GB/s in one direction\n", i + 1, layer.count,
               layer.name, layer.devices_per_child, layer.devices_per_child == 1 ? "" : "s");
    if (layer.count > kMaxPrintedRows) {
      fmt::print("  {} children, too many to print; group {}\n", layer.count,
                 gigabytes(layer.group));
    } else {
      fmt::print("{}", table_of(layer).text());
    }
    if (i + 1 < matrix.layers.size()) fmt::print("\n");
  }
}

void run_matrix(const MatrixOptions& options) {
  const Result<Cluster> cluster = read_cluster(options.cluster_file);
  if (!cluster) throw CommandError(cluster.error().message, kWrongUsage);
  const planner::Interconnect& interconnect = cluster.value().interconnect;
  const Result<planner::CommunicationMatrix> matrix = planner::communication_matrix(interconnect);
  if (!matrix) throw CommandError(matrix.error().message);
  if (options.csv) {
    fmt::print("{}", csv_of(matrix.value()).csv());
  } else {
    print_layers(matrix.value());
  }
}

}  // namespace

void add_matrix_command(const Command& plan) {
  const Command command =
      plan.add_command("matrix",
                       "Print the hierarchical communication matrix of a cluster (Fig. 7 of the "
                       "paper on Adaptive Tensor Parallelism)");
  command.footer(kMatrixExamples);
  const auto options = std::make_shared<MatrixOptions>();
  command.add_option("--cluster", options->cluster_file, "Cluster file")
      .required()
      .type_name("FILE");
  command.add_flag("--csv", options->csv, "Print CSV");
  command.callback([options] { run_matrix(*options); });
}

}  // namespace atp
