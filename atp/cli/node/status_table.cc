#include "atp/cli/node/status_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "atp/base/rank_set.h"
#include "atp/base/text.h"
#include "atp/cli/command/text_table.h"
#include "atp/cli/node/drain.h"
#include "atp/cli/node/scarcity.h"
#include "atp/config/text/plain_text.h"

namespace atp {
namespace {

using nlohmann::json;

// Refuses any number that is not a count.
std::uint64_t count_of(const json& value) {
  if (!value.is_number_integer() || value < 0) {
    throw json::type_error::create(302, "expected a whole number from 0", &value);
  }
  return value.get<std::uint64_t>();
}

std::uint64_t number(const json& from, const char* key) { return count_of(from.at(key)); }

// Text from the network must not control the terminal.
std::string word(const json& from, const char* key) {
  return made_plain(from.at(key).get<std::string>());
}

std::string counted(const json& from, const char* key) { return with_commas(number(from, key)); }

RankSet ranks(const json& job, const char* key) {
  RankSet set;
  for (const json& rank : job.at(key)) {
    const std::uint64_t value = count_of(rank);
    if (value < kMaxRanks) set.insert(static_cast<Rank>(value));
  }
  return set;
}

std::string share(const json& of) {
  // Float sums bypass the switches, and without a switch on any route there is no share.
  const std::uint64_t fragments = number(of, "fragments");
  const std::uint64_t all = fragments - std::min(fragments, number(of, "fragments_as_floats"));
  if (all == 0 || !of.at("has_switches").get<bool>()) return "-";
  const std::uint64_t in_switches = number(of, "fragments_summed_in_switches");
  return fmt::format("{:.1f} %",
                     100.0 * static_cast<double>(in_switches) / static_cast<double>(all));
}

std::string streams(const json& job) {
  const std::uint64_t first = number(job, "first_stream");
  const std::uint64_t last = first + number(job, "streams") - 1;
  return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
}

// "rank 3 missing, ranks 0 and 1 left".
std::string absentees(const json& job, const std::vector<const char*>& kinds) {
  std::string text;
  for (const char* kind : kinds) {
    const RankSet set = ranks(job, kind);
    if (set.empty()) continue;
    const std::string_view word = std::string_view(kind) == "waited_for" ? "late" : kind;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", ranks_text(set), word);
  }
  return text.empty() ? "-" : text;
}

std::string workers(const json& job) {
  return fmt::format("{} of {}", job.at("joined").size(), number(job, "world_size"));
}

std::string tenant_of(const json& job) {
  const bool is_known = job.contains("tenant") && !job.at("tenant").is_null();
  return is_known ? word(job, "tenant") : "";
}

// "job 7", or "job 7 of vision".
std::string name_of(const json& job) {
  const std::string of = tenant_of(job);
  return fmt::format("job {}{}", number(job, "job"), of.empty() ? "" : " of " + of);
}

// A table of jobs, with a column for their tenants if the node has keys.
class JobTable {
 public:
  JobTable(const json& jobs, std::vector<std::string> header)
      : has_tenants_(std::any_of(jobs.begin(), jobs.end(),
                                 [](const json& job) { return job.contains("tenant"); })),
        table_(with_tenant(std::move(header), "tenant")) {}

  // `cells`: those after the incarnation.
  void add(const json& job, std::vector<std::string> cells) {
    cells.insert(cells.begin(), {fmt::format("{}", number(job, "job")),
                                 fmt::format("{}", number(job, "incarnation"))});
    const std::string tenant = tenant_of(job);
    table_.add(with_tenant(std::move(cells), tenant.empty() ? "-" : tenant));
  }
  std::string text() const { return table_.empty() ? "  no jobs\n" : table_.text(); }

 private:
  std::vector<std::string> with_tenant(std::vector<std::string> cells, std::string tenant) const {
    if (has_tenants_) cells.insert(cells.begin() + 2, std::move(tenant));
    return cells;
  }

  const bool has_tenants_;
  TextTable table_;
};

// "  job 7 has waited 3.2 s for rank 2 (10.0.1.2) in all_reduce #17 (1,000 values)", one line per
// waiting job.
std::string stuck_lines(const json& status) {
  std::string text;
  for (const json& job : status.at("jobs")) {
    if (!job.contains("stuck") || job.at("stuck").is_null()) continue;
    const json& stuck = job.at("stuck");
    std::string names;
    for (const json& rank : stuck.at("ranks")) {
      const json& host = rank.at("host");
      names += fmt::format("{}{}{}", names.empty() ? "" : ", ", number(rank, "rank"),
                           host.is_null() ? "" : " (" + word(rank, "host") + ")");
    }
    const auto operation = stuck.find("operation");  // absent in the status of earlier releases
    const bool is_known = operation != stuck.end() && operation->is_string();
    text += fmt::format("  {} has waited {:.1f} s for {} {}{}\n", name_of(job),
                        stuck.at("waited_s").get<double>(),
                        stuck.at("ranks").size() == 1 ? "rank" : "ranks", names,
                        is_known ? " in " + word(stuck, "operation") : "");
  }
  return text;
}

std::string milliseconds(const json& of, const char* key) {
  return fmt::format("{:.1f} ms", static_cast<double>(number(of, key)) / 1000);
}

// "  job 7: rank 2 lags most: its first packets by 40.1 ms (p99 81.0 ms), …", one line per job
// with a late rank.
std::string lateness_lines(const json& status) {
  constexpr std::uint64_t kWorthALineUs = 1000;
  std::string text;
  for (const json& job : status.at("jobs")) {
    const json* latest = nullptr;
    std::uint64_t by = kWorthALineUs - 1;
    const json all = job.value("lateness", json::array());
    for (const json& rank : all) {
      const std::uint64_t late =
          std::max(number(rank, "first_p50_us"), number(rank, "last_p50_us"));
      if (late <= by) continue;
      by = late;
      latest = &rank;
    }
    if (latest == nullptr) continue;
    text += fmt::format(
        "  {}: rank {} lags most: its first packets by {} (p99 {}), its last by {} (p99 "
        "{})\n",
        name_of(job), number(*latest, "rank"), milliseconds(*latest, "first_p50_us"),
        milliseconds(*latest, "first_p99_us"), milliseconds(*latest, "last_p50_us"),
        milliseconds(*latest, "last_p99_us"));
  }
  return text;
}

// "  job 7 failed 3.2 s ago: rank 1 (10.0.1.1) left: …", for the last ten minutes.
std::string failure_lines(const json& status) {
  constexpr double kWorthALineS = 600;
  std::string text;
  for (const json& one : status.value("failures", json::array())) {
    const double ago = one.at("ago_s").get<double>();
    if (ago > kWorthALineS) continue;
    text += fmt::format("  {} failed {:.1f} s ago: {}\n", name_of(one), ago, word(one, "why"));
  }
  return text;
}

std::string server_text(const json& status) {
  JobTable table(status.at("jobs"), {"job", "incarnation", "streams", "state", "workers",
                                     "fragments", "in switches", "remarks"});
  for (const json& job : status.at("jobs")) {
    table.add(
        job, {streams(job), word(job, "state"), workers(job), counted(job, "fragments"), share(job),
              absentees(job, {"missing", "detached", "waited_for", "lost", "left"})});
  }
  const std::string in_switches = share(status);
  return fmt::format(
             "  {} fragments complete, {} as floats{}\n", counted(status, "fragments"),
             counted(status, "fragments_as_floats"),
             in_switches == "-" ? "" : "; " + in_switches + " of the others summed in switches") +
         table.text() + failure_lines(status) + stuck_lines(status) + lateness_lines(status);
}

// Both numbers are absent in the status of earlier releases.
void add(const json& job, Wanted& wanted) {
  const json& aggregators = job.at("aggregators");
  wanted.add(aggregators.value("gradients", 0.0), aggregators.value("collided", 0.0));
}

// "12,288 (weight 3)"
std::string part(const json& job) {
  const json& aggregators = job.at("aggregators");
  if (!aggregators.contains("part")) return "-";
  const std::uint64_t weight = number(aggregators, "weight");
  return counted(aggregators, "part") + (weight == 1 ? "" : fmt::format(" (weight {})", weight));
}

std::string collided(const json& job) {
  Wanted wanted;
  add(job, wanted);
  return wanted.gradients > 0 ? fmt::format("{:.1f} %", 100 * wanted.share()) : "-";
}

// "; with 32,768 (now 16,384): at most 21 % faster"; empty if the job would gain nothing, or the
// node's release does not say.
std::string gain(const json& status, const json& job) {
  const double gain = job.at("aggregators").value("gain", 0.0);
  if (gain <= 0) return "";
  const json& aggregators = status.at("aggregators");
  return fmt::format("; with {} (now {}): at most {:.0f} % faster", counted(aggregators, "enough"),
                     counted(aggregators, "total"), 100 * gain);
}

// "  aggregators are scarce: 3.0 % of the gradients of job 7 found none; with …", one line per job,
// whatever its stream ranges.
std::string scarcity_lines(const json& status) {
  constexpr double kWorthALine = 0.01;
  std::map<std::string, Wanted> of_jobs;
  for (const json& job : status.at("jobs")) add(job, of_jobs[name_of(job)]);
  std::string text;
  for (const json& job : status.at("jobs")) {
    const auto found = of_jobs.find(name_of(job));
    if (found == of_jobs.end()) continue;
    if (found->second.share() > kWorthALine) {
      text +=
          fmt::format("  aggregators are scarce: {:.1f} % of the gradients of {} found none{}\n",
                      100 * found->second.share(), found->first, gain(status, job));
    }
    of_jobs.erase(found);
  }
  return text;
}

std::string switch_text(const json& status) {
  JobTable table(status.at("jobs"), {"job", "incarnation", "streams", "workers here",
                                     "aggregators held", "part", "collided", "parent", "remarks"});
  for (const json& job : status.at("jobs")) {
    table.add(job, {streams(job), workers(job), counted(job.at("aggregators"), "held"), part(job),
                    collided(job), word(job, "parent"), absentees(job, {"detached", "left"})});
  }
  const json& aggregators = status.at("aggregators");
  return fmt::format("  {} of {} aggregators held; {} sums completed, {} gradients collided\n",
                     counted(aggregators, "held"), counted(aggregators, "total"),
                     counted(status, "sums_completed"), counted(status, "collisions")) +
         table.text() + scarcity_lines(status) + stuck_lines(status) + lateness_lines(status);
}

std::string drops_text(const json& status) {
  std::string text;
  for (const auto& [reason, count] : status.at("drops").items()) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", made_plain(reason),
                        with_commas(count_of(count)));
  }
  return fmt::format("  dropped: {}\n", text.empty() ? "nothing" : text);
}

}  // namespace

std::size_t jobs_in(const json& status) {
  std::set<std::tuple<std::uint64_t, std::string, std::uint64_t>> jobs;
  for (const json& job : status.at("jobs")) {
    jobs.emplace(number(job, "job"), tenant_of(job), number(job, "incarnation"));
  }
  return jobs.size();
}

std::string status_table(const json& status) {
  const std::string role = word(status, "role");
  // Absent in the status of earlier releases.
  const bool drains = status.value("draining", false);
  return fmt::format("{} {} (atp {})\n", role, word(status, "listen"), word(status, "version")) +
         (drains ? fmt::format("  {}\n", drain_text(jobs_in(status))) : std::string()) +
         (role == "server" ? server_text(status) : switch_text(status)) + drops_text(status);
}

}  // namespace atp
