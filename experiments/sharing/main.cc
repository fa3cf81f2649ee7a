#include <bit>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "atp/cli/command/command.h"
#include "experiments/sharing/contest.h"

// Runs one contest and prints its result as JSON, for the scripts in this folder.

namespace atp::sharing {
namespace {

void add_options(const CommandLine& program, Setup& setup) {
  const auto option = [&program](const char* name, auto& value) {
    return program.add_option(name, value, "");
  };
  option("--jobs", setup.jobs).in_range(1, 100);
  option("--workers", setup.workers).in_range(1, 20);
  option("--aggregators", setup.aggregators).in_range(1, 65535);
  option("--placement", setup.placement).one_of({"rehash", "hash", "linear"});
  program.add_flag("--partition", setup.partition, "");
  option("--quota", setup.quota);
  option("--window", setup.window).in_range(1, 65536);
  option("--values", setup.values);
  option("--fragments", setup.fragments);
  option("--operations", setup.operations);
  option("--in-flight", setup.in_flight);
  option("--compute", setup.compute_us);
  option("--stagger", setup.stagger_us);
  option("--delay", setup.delay_us);
  option("--sample", setup.sample_us);
  program.add_flag("--aimd", setup.aimd, "");
  option("--ecn-bytes", setup.ecn_bytes);
  option("--queue-bytes", setup.queue_bytes);
  option("--server-gbit", setup.server_gbit);
  option("--seed", setup.seed);
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
    series.push_back({sample.us, sample.fragments, sample.in_switch});
  }
  return {{"measured_us", result.measured_us},
          {"goodput", result.goodput},
          {"share_in_switch", result.share_in_switch},
          {"packets_to_server", result.packets_to_server},
          {"collisions", result.collisions},
          {"over_quota", result.over_quota},
          {"repeats", result.repeats},
          {"wrong", result.wrong},
          {"series", series}};
}

}  // namespace
}  // namespace atp::sharing

int main(int argc, char** argv) {
  atp::CommandLine program("sharing_contest", "Simulate jobs that share a switch and a server");
  atp::sharing::Setup setup;
  atp::sharing::add_options(program, setup);
  int exit_code = 0;
  program.callback([&] {
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
