#include "atp/cli/view/node_record.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string_view>
#include <utility>

#include "atp/cli/status/scarcity.h"

namespace atp {
namespace {

constexpr double kBitsPerByte = 8;

// Every node counts these from 0 at its start, so a lower count means a restart.
bool has_restarted(const NodeStatus& before, const NodeStatus& now) {
  for (const char* name : {"packets_received", "udp_datagrams_in", "udp_ip_bytes_in",
                           "udp_datagrams_out", "udp_ip_bytes_out"}) {
    if (now.counter(name) < before.counter(name)) return true;
  }
  return before.is_switch() != now.is_switch();
}

// Packets that no healthy job sends, however much is lost and repeated: strangers', broken ones,
// and those of ranks that were started wrongly.
constexpr std::string_view kSuspect[] = {
    "drop_too_short",          "drop_unknown_version",
    "drop_unknown_type",       "drop_unknown_flags",
    "drop_unknown_kind",       "drop_bad_bitmap_width",
    "drop_bad_value_count",    "drop_bad_length",
    "drop_bad_body",           "drop_unexpected_type",
    "drop_foreign_ranks",      "drop_empty_bitmap",
    "drop_wrong_bitmap_width", "drop_wrong_value_count",
    "drop_not_from_parent",    "drop_refused",
    "drop_rank_taken",         "drop_wrong_nonce",
    "drop_too_many_hops",      "drop_wrong_source",
    "drop_bad_rank",           "udp_wrong_key",
};

std::uint64_t refused(const NodeStatus& status) {
  std::uint64_t sum = 0;
  for (const std::string_view name : kSuspect) sum += status.counter(name);
  return sum;
}

// GRADIENTs that found no aggregator.
std::uint64_t collided(const NodeStatus& status) {
  return status.counter("collisions") + status.counter("forwarded_after_collision") +
         status.counter("forwarded_over_quota");
}

// GRADIENTs that were passed on.
std::uint64_t passed_on(const NodeStatus& status) {
  std::uint64_t sum = status.counter("collisions");
  for (const auto& [name, value] : status.counters) {
    if (name.starts_with("forwarded_")) sum += value;
  }
  return sum;
}

std::uint64_t lost(const NodeStatus& status) {
  std::uint64_t sum = 0;
  for (const char* name : {"udp_receive_drops", "udp_lost_queue_full", "outbox_lost"}) {
    sum += status.counter(name);
  }
  return sum;
}

// For a switch: its jobs may differ, and it does not count sums per job.
double values_per_sum(const NodeStatus& status) {
  std::uint64_t most = 0;
  for (const JobStatus& job : status.jobs) most = std::max(most, job.values_per_fragment);
  return static_cast<double>(most);
}

std::optional<double> share(double part, double whole) {
  if (whole <= 0) return std::nullopt;
  return std::clamp(part / whole, 0.0, 1.0);
}

// The jobs of an earlier answer.
class EarlierJobs {
 public:
  explicit EarlierJobs(const NodeStatus& status) {
    for (const JobStatus& job : status.jobs) jobs_.emplace(key_of(job), &job);
  }
  // The same job's figures; those of no job if that answer did not have it.
  const JobStatus& find(const JobStatus& job) const {
    static const JobStatus kNone;
    const auto found = jobs_.find(key_of(job));
    return found == jobs_.end() ? kNone : *found->second;
  }

 private:
  using Key = std::pair<JobName, std::uint64_t>;  // with the first stream
  static Key key_of(const JobStatus& job) { return {name_of_job(job), job.first_stream}; }

  std::map<Key, const JobStatus*> jobs_;
};

double rise(std::uint64_t before, std::uint64_t now) {
  return now > before ? static_cast<double>(now - before) : 0;
}

// Jobs whatever their stream ranges, whose entries are adjacent.
void add_collided_jobs(const EarlierJobs& before, const NodeStatus& now, NodeRates& rates) {
  Wanted all;
  for (std::size_t i = 0; i < now.jobs.size();) {
    const JobStatus& job = now.jobs[i];
    Wanted wanted;
    for (; i < now.jobs.size() && is_same_job(now.jobs[i], job); ++i) {
      const JobStatus& old = before.find(now.jobs[i]);
      const JobAggregators& has = now.jobs[i].aggregators;
      wanted.add(rise(old.aggregators.gradients, has.gradients),
                 rise(old.aggregators.collided, has.collided));
    }
    all.add(wanted.gradients, wanted.collided);
    if (wanted.collided == 0) continue;
    const JobAggregators& has = job.aggregators;
    rates.collided_jobs.push_back(
        {name_of(job), wanted.share(), has.held, has.part,
         gain_of(wanted, job.children, has.limit, now.aggregators.total)});
  }
  rates.enough_aggregators = enough_aggregators(now.aggregators.total, all);
}

std::vector<JobRates> rates_of_jobs(const EarlierJobs& before, const NodeStatus& now,
                                    double seconds) {
  std::vector<JobRates> all;
  for (const JobStatus& job : now.jobs) {
    const JobStatus& old = before.find(job);
    const double sums = rise(old.fragments, job.fragments);
    const double floats = rise(old.fragments_as_floats, job.fragments_as_floats);
    const double could = job.has_switches ? std::max(sums - floats, 0.0) : 0;
    const double did = rise(old.fragments_summed_in_switches, job.fragments_summed_in_switches);
    all.push_back({.sums = sums / seconds,
                   .sums_that_switches_could_add = could / seconds,
                   .sums_in_switches = std::min(did, could) / seconds});
  }
  return all;
}

}  // namespace

void NodeRecord::take(NodeAnswer answer, double time_s) {
  if (answer.presence != presence_) since_s_ = time_s;
  presence_ = answer.presence;
  problem_ = std::move(answer.problem);
  stopped_s_ = 0;
  if (presence_ != NodePresence::kUp) {
    rates_.reset();
    job_rates_.clear();
    return;
  }
  if (status_ && time_s > answered_s_) {
    const bool restarted = has_restarted(*status_, answer.status);
    if (restarted) ++restarts_;
    const NodeStatus nothing{.role = answer.status.role};
    compare(restarted ? nothing : *status_, answer.status, time_s - answered_s_);
  }
  job_rates_.resize(answer.status.jobs.size());
  status_ = std::move(answer.status);
  answered_s_ = time_s;
}

void NodeRecord::compare(const NodeStatus& before, const NodeStatus& now, double seconds) {
  const auto counted = [&](const char* name) {
    return rise(before.counter(name), now.counter(name));
  };
  const EarlierJobs earlier(before);
  job_rates_ = rates_of_jobs(earlier, now, seconds);
  NodeRates rates{.in_bits = counted("udp_ip_bytes_in") * kBitsPerByte / seconds,
                  .out_bits = counted("udp_ip_bytes_out") * kBitsPerByte / seconds,
                  .refused_packets = rise(refused(before), refused(now)) / seconds,
                  .lost_packets = rise(lost(before), lost(now)) / seconds};
  if (now.is_switch()) {
    const double gradients = counted("gradients_received");
    rates.sums = counted("complete_sums_sent") / seconds;
    rates.goodput_bits = rates.sums * values_per_sum(now) * kBitsPerValue;
    rates.share_summed = share(gradients - rise(passed_on(before), passed_on(now)), gradients);
    rates.share_collided = share(rise(collided(before), collided(now)), gradients);
    add_collided_jobs(earlier, now, rates);
  } else {
    double in_switches = 0, could = 0;
    for (std::size_t i = 0; i < job_rates_.size(); ++i) {
      rates.sums += job_rates_[i].sums;
      rates.goodput_bits +=
          job_rates_[i].sums * static_cast<double>(now.jobs[i].values_per_fragment) * kBitsPerValue;
      in_switches += job_rates_[i].sums_in_switches;
      could += job_rates_[i].sums_that_switches_could_add;
    }
    rates.share_summed = share(in_switches, could);
  }
  stopped_s_ = counted("process_stopped_ms") / 1000;
  rates_ = rates;
}

}  // namespace atp
