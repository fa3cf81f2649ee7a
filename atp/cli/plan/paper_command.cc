#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "atp/cli/command.h"
#include "atp/cli/plan/output_file.h"
#include "atp/cli/plan/paper_rows.h"
#include "atp/cli/plan/plan_command.h"

namespace atp {
namespace {

constexpr const char* kExamples = R"(Examples:
  atp plan paper
  atp plan paper --out figures
      with the plots
  atp plan paper --markdown
      the table of docs/planner.md)";

struct PaperOptions {
  bool markdown = false;
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

void print_markdown(const std::vector<paper::Row>& rows) {
  fmt::print("| where | what | paper | ours | why |\n|---|---|---|---|---|\n");
  for (const paper::Row& row : rows) {
    fmt::print("| {} | {} | {} | {} | {} |\n", row.where, row.what, row.paper, row.ours, row.why);
  }
}

void print_csv(const std::vector<paper::Row>& rows) {
  TextTable table({"where", "what", "paper", "ours", "why"});
  for (const paper::Row& row : rows) {
    table.add({row.where, row.what, row.paper, row.ours, row.why});
  }
  fmt::print("{}", table.csv());
}

void write_plots(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw CommandError(fmt::format("cannot make {}: {}", folder, error.message()));
  for (const paper::Plot& plot : paper::plots()) {
    write_output_file(folder + "/" + plot.file, plot.svg);
  }
}

void run_paper(const PaperOptions& options) {
  const std::vector<paper::Row> rows = paper::all_rows();
  if (options.markdown) {
    print_markdown(rows);
  } else if (options.csv) {
    print_csv(rows);
  } else {
    print_for_people(rows);
  }
  if (!options.folder.empty()) write_plots(options.folder);
}

}  // namespace

void add_paper_command(CLI::App& plan) {
  CLI::App* command = plan.add_subcommand(
      "paper", "The paper's figures and tables that need no GPU: paper, ours, why they differ");
  command->footer(kExamples);
  const auto options = std::make_shared<PaperOptions>();
  CLI::Option* markdown = command->add_flag("--markdown", options->markdown, "As a Markdown table");
  command->add_flag("--csv", options->csv, "As CSV")->excludes(markdown);
  command->add_option("--out", options->folder, "Also write the plots into this folder, as SVG")
      ->type_name("DIR");
  command->callback([options] { run_paper(*options); });
}

}  // namespace atp
