#include <fmt/core.h>

#include <bit>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "atp/cli/command/command.h"
#include "atp/config/text/words.h"
#include "experiments/sharing/contest.h"

// Runs one contest and prints its result as JSON, for the scripts in this folder.

namespace atp::sharing {
namespace {

// Lists as they are given: one entry per job, the last for all further ones.
struct Lists {
  std::vector<std::string> workers{"4"};
  std::vector<std::string> fragments{"256"};
  std::vector<std::string> compute{"0"};
  std::vector<std::string> operations{"64"};
  std::vector<std::string> late{"0"};
  std::vector<std::string> room{"1"};
  std::vector<std::string> weights;
  bool paper = false;
};

double number(const std::string& option, const std::string& text, double least, double most) {
  const std::optional<double> found = parse_number(text);
  if (found && *found >= least && *found <= most) return *found;
  throw UsageError(
      fmt::format("{}: expected numbers from {:g} to {:g}, separated by commas, found '{}'", option,
                  least, most, text));
}

void add_options(const CommandLine& program, Setup& setup, Lists& lists) {
  const auto option = [&program](const char* name, auto& value) {
    return program.add_option(name, value, "");
  };
  option("--jobs", setup.jobs).in_range(1, 100);
  option("--workers", lists.workers).split_at(',');
  option("--aggregators", setup.aggregators).in_range(1, 65535);
  option("--placement", setup.placement).one_of({"rehash", "hash", "linear"});
  program.add_flag("--partition", setup.partition, "");
  option("--quota", setup.quota);
  option("--places", setup.places).in_range(1u, kMostPlaces);
  program.add_flag("--first-come", setup.first_come, "");
  option("--room", lists.room).split_at(',');
  option("--weights", lists.weights).split_at(',');
  program.add_flag("--resend-only", setup.resend_only, "");
  program.add_flag("--no-tolerance", setup.no_tolerance, "");
  program.add_flag("--halve", setup.halve, "");
  program.add_flag("--paper", lists.paper, "");
  option("--window", setup.window).in_range(1, 65536);
  option("--values", setup.values);
  option("--fragments", lists.fragments).split_at(',');
  option("--operations", lists.operations).split_at(',');
  option("--in-flight", setup.in_flight);
  option("--compute", lists.compute).split_at(',');
  option("--stagger", setup.stagger_us);
  option("--late", lists.late).split_at(',');
  option("--delay", setup.delay_us);
  option("--sample", setup.sample_us);
  program.add_flag("--aimd", setup.aimd, "");
  option("--ecn-bytes", setup.ecn_bytes);
  option("--queue-bytes", setup.queue_bytes);
  option("--host-ns", setup.host_ns);
  option("--server-gbit", setup.server_gbit);
  option("--racks", setup.racks).in_range(1, 20);
  option("--levels", setup.levels).in_range(0, 2);
  option("--rack-gbit", setup.rack_gbit).number_between(0, 10'000);
  option("--loss", setup.loss).number_between(0, 0.5);
  program.add_flag("--split-jobs", setup.split_jobs, "");
  option("--seed", setup.seed).in_range(std::size_t{1}, std::size_t{1'000'000});
}

template <class T>
std::vector<T> numbers(const std::string& option, const std::vector<std::string>& texts,
                       double least, double most) {
  std::vector<T> list;
  for (const std::string& text : texts) {
    list.push_back(static_cast<T>(number(option, text, least, most)));
  }
  return list;
}

void read_lists(const Lists& lists, Setup& setup) {
  setup.workers = numbers<std::uint16_t>("--workers", lists.workers, 1, 64);
  setup.fragments = numbers<std::uint32_t>("--fragments", lists.fragments, 1, 1e8);
  setup.compute_us = numbers<double>("--compute", lists.compute, 0, 1e7);
  setup.operations = numbers<std::uint32_t>("--operations", lists.operations, 1, 1e6);
  setup.late_us = numbers<double>("--late", lists.late, 0, 1e7);
  setup.room = numbers<std::uint8_t>("--room", lists.room, 0, 1);
  setup.weights = numbers<std::uint32_t>("--weights", lists.weights, 1, 1000);
}

// The paper's own rules: a fragment has one aggregator, whoever comes first has it, only the
// congestion window bounds what is in flight (§3.5, §4), and workers repeat and slow down as in
// §3.7.
void take_papers_rules(Setup& setup) {
  setup.places = 1;
  setup.first_come = true;
  setup.room = {0};
  setup.resend_only = setup.no_tolerance = setup.halve = true;
}

void check(const Setup& setup) {
  if (std::has_single_bit(setup.window)) return;
  throw UsageError("--window: expected a power of two up to 65536, found " +
                   std::to_string(setup.window));
}

nlohmann::json json_of(const Report& report) {
  const Result& result = report.result;
  nlohmann::json series = nlohmann::json::array();
  for (const Sample& sample : report.series) {
    series.push_back({sample.us, sample.fragments, sample.in_switch, sample.in_switch_by_job});
  }
  return {{"measured_us", result.measured_us},
          {"goodput", result.goodput},
          {"share_in_switch", result.share_in_switch},
          {"packets_to_server", result.packets_to_server},
          {"collisions", result.collisions},
          {"over_quota", result.over_quota},
          {"repeats", result.repeats},
          {"marked", result.marked},
          {"window_cuts", result.window_cuts},
          {"room_cuts", result.room_cuts},
          {"wrong", result.wrong},
          {"series", series},
          {"completed_ps", report.completed_ps}};
}

}  // namespace
}  // namespace atp::sharing

int main(int argc, char** argv) {
  atp::CommandLine program("sharing_contest", "Simulate jobs that share a switch and a server");
  atp::sharing::Setup setup;
  atp::sharing::Lists lists;
  atp::sharing::add_options(program, setup, lists);
  int exit_code = 0;
  program.callback([&] {
    atp::sharing::read_lists(lists, setup);
    if (lists.paper) atp::sharing::take_papers_rules(setup);
    atp::sharing::check(setup);
    const atp::sharing::Report report = atp::sharing::play(setup);
    std::puts(atp::sharing::json_of(report).dump().c_str());
    exit_code = report.result.wrong.empty() ? 0 : 1;
  });
  try {
    program.parse({argv + 1, argv + argc});
  } catch (const atp::UsageError& error) {
    std::fprintf(stderr, "sharing_contest: %s\n", error.what());
    return atp::kWrongUsage;
  }
  return exit_code;
}
