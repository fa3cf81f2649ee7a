#include <CLI/CLI.hpp>
#include <bit>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "experiments/sharing/contest.h"

// One contest, as the options say, and its result as JSON. The scripts beside this program run it.

namespace atp::sharing {
namespace {

std::string power_of_two(const std::string& text) {
  std::uint32_t value = 0;
  const bool fits = CLI::detail::lexical_cast(text, value) && value <= 65536;
  return fits && std::has_single_bit(value) ? "" : "a power of two up to 65536, not " + text;
}

void add_options(CLI::App& app, Setup& setup) {
  app.add_option("--jobs", setup.jobs)->check(CLI::Range(1, 100));
  app.add_option("--workers", setup.workers)->check(CLI::Range(1, 20));
  app.add_option("--aggregators", setup.aggregators)->check(CLI::Range(1, 65535));
  app.add_option("--placement", setup.placement)
      ->check(CLI::IsMember({"rehash", "hash", "linear"}));
  app.add_flag("--partition", setup.partition);
  app.add_option("--quota", setup.quota);
  app.add_option("--window", setup.window)->check(CLI::Validator(power_of_two, "POWER OF TWO"));
  app.add_option("--values", setup.values);
  app.add_option("--fragments", setup.fragments);
  app.add_option("--operations", setup.operations);
  app.add_option("--in-flight", setup.in_flight);
  app.add_option("--compute", setup.compute_us);
  app.add_option("--stagger", setup.stagger_us);
  app.add_option("--delay", setup.delay_us);
  app.add_option("--sample", setup.sample_us);
  app.add_flag("--aimd", setup.aimd);
  app.add_option("--ecn-bytes", setup.ecn_bytes);
  app.add_option("--queue-bytes", setup.queue_bytes);
  app.add_option("--server-gbit", setup.server_gbit);
  app.add_option("--seed", setup.seed);
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
  CLI::App app("Jobs that share a switch and a server, in the simulator");
  atp::sharing::Setup setup;
  atp::sharing::add_options(app, setup);
  CLI11_PARSE(app, argc, argv);
  const atp::sharing::Report report = atp::sharing::play(setup);
  std::puts(atp::sharing::json_of(report).dump().c_str());
  return report.result.wrong.empty() ? 0 : 1;
}
