#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "atp/cli/command/command.h"
#include "atp/cli/command/text_table.h"
#include "experiments/planner/paper/paper_rows.h"

// The figures and tables of the paper that need no GPU: the paper's numbers, the planner's, and why
// they differ. With --out also the tables that experiments/planner/paper_plots.py draws.

namespace atp {
namespace {

constexpr const char* kExamples = R"(Examples:
  build/release/bin/planner_paper
  build/release/bin/planner_paper --out out/planner
      with a table for each plot)";

struct PaperOptions {
  bool csv = false;
  std::string folder;
};

void print_for_people(const std::vector<paper::Row>& rows) {
  for (const paper::Row& row : rows) {
    fmt::print("{}: {}\n  paper  {}\n  ours   {}\n", row.where, row.what, row.paper, row.ours);
    if (!row.why.empty()) fmt::print("  why    {}\n", row.why);
    fmt::print("\n");
  }
  fmt::print("Fig. 12, T by devices\n{}", paper::figure_12_table().text());
}

void print_csv(const std::vector<paper::Row>& rows) {
  TextTable table({"where", "what", "paper", "ours", "why"});
  for (const paper::Row& row : rows) {
    table.add({row.where, row.what, row.paper, row.ours, row.why});
  }
  fmt::print("{}", table.csv());
}

void write_plot_tables(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw CommandError(fmt::format("cannot create {}: {}", folder, error.message()));
  for (const paper::PlotTable& plot : paper::plot_tables()) {
    const std::string path = folder + "/" + plot.name + ".csv";
    std::ofstream file(path, std::ios::binary);
    file << plot.table.csv();
    file.close();
    if (!file) throw CommandError(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  }
}

void run_paper(const PaperOptions& options) {
  const std::vector<paper::Row> rows = paper::all_rows();
  if (options.csv) {
    print_csv(rows);
  } else {
    print_for_people(rows);
  }
  if (!options.folder.empty()) write_plot_tables(options.folder);
}

int run_program(const std::vector<std::string>& arguments) {
  CommandLine program("planner_paper",
                      "Compare the paper's figures and tables that need no GPU with the planner");
  program.footer(kExamples);
  PaperOptions options;
  program.add_flag("--csv", options.csv, "Print CSV");
  program
      .add_option("--out", options.folder, "Also write the plots' tables into this folder, as CSV")
      .type_name("DIR");
  program.callback([&options] { run_paper(options); });
  try {
    program.parse(arguments);
    return 0;
  } catch (const UsageError& error) {
    fmt::print(stderr, "planner_paper: {} (see 'planner_paper --help')\n", error.what());
    return kWrongUsage;
  } catch (const std::exception& error) {
    fmt::print(stderr, "planner_paper: {}\n", error.what());
    return kOperationFailed;
  }
}

}  // namespace
}  // namespace atp

int main(int argc, char** argv) { return atp::run_program({argv + 1, argv + argc}); }
