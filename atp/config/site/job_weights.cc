#include "atp/config/site/job_weights.h"

#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "atp/config/site/site_reader.h"
#include "atp/config/text/words.h"

namespace atp {
namespace {

constexpr std::size_t kMostEntries = 1024;
constexpr std::uint32_t kLastJob = std::numeric_limits<std::uint32_t>::max();

std::optional<std::uint32_t> job_number(std::string_view text) {
  const std::optional<long long> number = parse_integer(text);
  if (!number || *number < 0 || *number > kLastJob) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

// "7" or "100-199".
void read_jobs(const YamlValue& value, JobWeight& entry) {
  const std::string expected =
      "a job's number from 0 to " + std::to_string(kLastJob) + ", or a range such as 100-199";
  const std::string text = value.text(expected);
  const std::size_t dash = text.find('-');
  const auto first = job_number(text.substr(0, dash));
  const auto last = dash == text.npos ? first : job_number(text.substr(dash + 1));
  if (!first || !last || *first > *last) value.refuse(expected);
  entry.first = *first;
  entry.last = *last;
}

JobWeight read_entry(const YamlValue& value) {
  const YamlMap map =
      value.map({"job", "weight", "tenant"}, "the weight of a job: {job: 7, weight: 4}");
  JobWeight entry{.tenant = {}, .place = value.place()};
  read_jobs(map.need("job", "the job's number (`atp run --job`), or a range of numbers"), entry);
  const YamlValue weight = map.need("weight", count_text(1, kMostJobWeight));
  entry.weight = static_cast<std::uint32_t>(weight.count(1, kMostJobWeight));
  if (const auto tenant = map.find("tenant")) entry.tenant = read_name(*tenant);
  return entry;
}

void refuse_overlap(const JobWeight& entry, const std::vector<JobWeight>& before) {
  for (const JobWeight& other : before) {
    if (entry.tenant != other.tenant || entry.last < other.first || other.last < entry.first) {
      continue;
    }
    throw FileError(entry.place, "gives a weight to " + entry.jobs_text() + ", but " +
                                     other.place.key + " (line " +
                                     std::to_string(other.place.line) + ") gives one to " +
                                     other.jobs_text() + "; name each job once");
  }
}

}  // namespace

std::string JobWeight::jobs_text() const {
  return (first == last ? "job " : "jobs ") + std::to_string(first) +
         (first == last ? "" : "-" + std::to_string(last)) +
         (tenant.empty() ? "" : " of " + tenant);
}

std::vector<JobWeight> read_job_weights(const YamlValue& jobs) {
  const std::vector<YamlValue> items = jobs.list("a list of weights: {job: 7, weight: 4}");
  if (items.size() > kMostEntries) {
    refuse(jobs.place(), std::to_string(items.size()) + " entries",
           "at most " + std::to_string(kMostEntries), "name ranges of jobs");
  }
  std::vector<JobWeight> entries;
  for (const YamlValue& item : items) {
    JobWeight entry = read_entry(item);
    refuse_overlap(entry, entries);
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<std::vector<JobWeight>> read_job_weights_file(const std::string& path) {
  const std::string name = input_name(path);
  return read_or_error([&] {
    const YamlNode root = parse_yaml(read_text_file(path), name);
    const auto jobs = cluster_map(root, name).find("jobs");
    return jobs ? read_job_weights(*jobs) : std::vector<JobWeight>();
  });
}

}  // namespace atp
