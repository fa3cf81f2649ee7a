#include "atp/cli/view/node_status.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <set>

#include "atp/base/rank_set.h"
#include "atp/cli/node/status_dialogue.h"
#include "atp/config/text/plain_text.h"

namespace atp {
namespace {

using Document = nlohmann::json;

constexpr std::size_t kMostJobs = 256;
constexpr std::size_t kMostCounters = 512;
constexpr std::size_t kLongestWord = 64;
constexpr std::size_t kLongestSentence = 300;
constexpr std::size_t kMostFailures = 16;

std::uint64_t count_of(const Document& value) {
  if (!value.is_number_integer() || value < 0) {
    throw Document::type_error::create(302, "expected a whole number from 0", &value);
  }
  return value.get<std::uint64_t>();
}

std::uint64_t count(const Document& from, const char* key) {
  const auto found = from.find(key);
  return found == from.end() ? 0 : count_of(*found);
}

std::string word_of(const Document& value) {
  return made_plain(value.get<std::string>().substr(0, kLongestWord));
}

const Document& list(const Document& from, const char* key) {
  static const Document kNone = Document::array();
  const auto found = from.find(key);
  if (found == from.end()) return kNone;
  if (!found->is_array()) throw Document::type_error::create(302, "expected a list", &*found);
  return *found;
}

RankList ranks(const Document& job, const char* key) {
  std::set<std::uint32_t> all;
  for (const Document& rank : list(job, key)) {
    if (count_of(rank) < kMaxRanks) all.insert(rank.get<std::uint32_t>());
  }
  return {all.begin(), all.end()};
}

std::optional<StuckJob> stuck_of(const Document& job) {
  const auto found = job.find("stuck");
  if (found == job.end() || found->is_null()) return std::nullopt;
  StuckJob stuck{.waited_s = found->at("waited_s").get<double>()};
  const auto operation = found->find("operation");  // absent in the status of earlier releases
  if (operation != found->end() && operation->is_string()) stuck.operation = word_of(*operation);
  for (const Document& one : list(*found, "ranks")) {
    const Document& host = one.at("host");
    const std::uint64_t rank = count_of(one.at("rank"));
    if (rank >= kMaxRanks || stuck.ranks.size() == kMaxRanks) continue;
    stuck.ranks.emplace_back(static_cast<std::uint32_t>(rank), host.is_null() ? "" : word_of(host));
  }
  return stuck;
}

std::vector<std::string> hosts_of(const Document& job) {
  std::vector<std::string> hosts;
  for (const Document& host : list(job, "hosts")) {
    if (hosts.size() == kMaxRanks) break;
    hosts.push_back(host.is_null() ? "" : word_of(host));
  }
  return hosts;
}

std::vector<RankDelay> delays_of(const Document& job) {
  std::vector<RankDelay> all;
  for (const Document& one : list(job, "lateness")) {
    const std::uint64_t rank = count_of(one.at("rank"));
    if (rank >= kMaxRanks || all.size() == kMaxRanks) continue;
    all.push_back({.rank = static_cast<std::uint32_t>(rank),
                   .operations = count(one, "operations"),
                   .first_p50_us = count(one, "first_p50_us"),
                   .first_p99_us = count(one, "first_p99_us"),
                   .last_p50_us = count(one, "last_p50_us"),
                   .last_p99_us = count(one, "last_p99_us")});
  }
  return all;
}

std::string tenant_of(const Document& from) {
  const auto tenant = from.find("tenant");
  return tenant == from.end() || tenant->is_null() ? "" : word_of(*tenant);
}

JobStatus job_of(const Document& from) {
  JobStatus job{.job = count_of(from.at("job")),
                .incarnation = count_of(from.at("incarnation")),
                .first_stream = count(from, "first_stream"),
                .world_size = count_of(from.at("world_size")),
                .values_per_fragment = count(from, "values_per_fragment"),
                .joining = from.value("state", std::string()) == "joining",
                .joined = ranks(from, "joined"),
                .missing = ranks(from, "missing"),
                .detached = ranks(from, "detached"),
                .waited_for = ranks(from, "waited_for"),
                .lost = ranks(from, "lost"),
                .left = ranks(from, "left"),
                .stuck = stuck_of(from),
                .delays = delays_of(from),
                .hosts = hosts_of(from),
                .fragments = count(from, "fragments"),
                .fragments_as_floats = count(from, "fragments_as_floats"),
                .fragments_summed_in_switches = count(from, "fragments_summed_in_switches"),
                .has_switches = from.value("has_switches", false),
                .children = count(from, "children")};
  if (const auto parent = from.find("parent"); parent != from.end()) job.parent = word_of(*parent);
  if (const auto found = from.find("aggregators"); found != from.end()) {
    job.gradients = count(*found, "gradients");
    job.collided = count(*found, "collided");
    job.held = count(*found, "held");
    job.part = count(*found, "part");
    job.limit = count(*found, "limit");
  }
  job.tenant = tenant_of(from);
  return job;
}

NodeStatus status_of(const Document& document) {
  NodeStatus status{.is_switch = document.at("role").get<std::string>() == "switch",
                    .listen = word_of(document.at("listen")),
                    .version = word_of(document.at("version"))};
  if (const auto found = document.find("aggregators"); found != document.end()) {
    status.aggregators = count(*found, "total");
    status.aggregators_held = count(*found, "held");
  }
  for (const Document& job : list(document, "jobs")) {
    if (status.jobs.size() == kMostJobs) break;
    status.jobs.push_back(job_of(job));
  }
  for (const Document& one : list(document, "failures")) {
    if (status.failures.size() == kMostFailures) break;
    const std::string why = one.at("why").get<std::string>().substr(0, kLongestSentence);
    status.failures.push_back({count_of(one.at("job")), count_of(one.at("incarnation")),
                               made_plain(why), tenant_of(one)});
  }
  for (const auto& [name, value] : document.at("counters").items()) {
    if (status.counters.size() == kMostCounters) break;
    status.counters.emplace(made_plain(name.substr(0, kLongestWord)), count_of(value));
  }
  return status;
}

}  // namespace

Result<NodeStatus> read_node_status(const std::string& address, const std::string& reply) {
  constexpr bool kAsJson = true;
  const Result<std::string> document = status_answer(address, reply, kAsJson);
  if (!document) return document.error();
  try {
    return status_of(Document::parse(document.value()));
  } catch (const Document::exception&) {
    return Error{
        fmt::format("cannot read the answer of {}: it is from another version of atp", address)};
  }
}

}  // namespace atp
