#include "atp/cli/report/report_command.h"

#include <fmt/core.h>

#include <memory>
#include <string>
#include <vector>

#include "atp/cli/report/flight_record.h"
#include "atp/cli/report/report_text.h"
#include "atp/cli/report/story.h"

namespace atp {
namespace {

constexpr const char* kReportExamples = R"(Examples:
  ATP_FLIGHT_RECORDER=/shared/fr torchrun --nproc-per-node 4 train.py
      have each rank write a file to this folder when the job fails
  atp report /shared/fr
      say who waited for whom, in which operation, and what happened before
  atp report /shared/fr --last 60 --operations
      show the last minute, with all operations
  atp report /shared/fr --json
      print the same for programs
Exit codes: 0 there are no findings, 1 there are some, 2 wrong usage, or no usable files.)";

struct ReportOptions {
  std::vector<std::string> paths;
  double last_s = 10;
  bool operations = false;
  bool json = false;
};

void run_report(const ReportOptions& options) {
  if (options.paths.empty()) {
    throw UsageError("no files: name the folder that ATP_FLIGHT_RECORDER named for the job");
  }
  const RecordFolder folder = value_or_throw(read_record_folder(options.paths));
  if (const Status one = check_one_job(folder.records); !one) {
    throw CommandError(one.error().message, kWrongUsage);
  }
  const HostClocks clocks(folder.records);
  const Story story = tell_story(folder.records, clocks,
                                 {.last_ns = static_cast<std::int64_t>(options.last_s * 1e9),
                                  .all_operations = options.operations});
  fmt::print(
      "{}", options.json ? report_json(story, clocks, folder) : report_text(story, clocks, folder));
  if (!story.findings.empty()) throw CommandEnd(kOperationFailed);
}

}  // namespace

void add_report_command(const Command& program) {
  const Command command = program.add_command(
      "report", "Merge the ranks' flight-recorder files into one story: who waited for whom");
  command.footer(kReportExamples);
  const auto options = std::make_shared<ReportOptions>();
  command.add_option("path", options->paths, "Folder with the ranks' files, or the files")
      .type_name("PATH");
  command.add_option("--last", options->last_s, "Seconds of the timeline before the first failure")
      .type_name("SECONDS")
      .number_between(0, 1e6)
      .show_default();
  command.add_flag("--operations", options->operations,
                   "Show all operations in the timeline, not only those that the findings name");
  command.add_flag("--json", options->json, "Print JSON (docs/operate/flight-recorder.md)");
  command.callback([options] { run_report(*options); });
}

}  // namespace atp
