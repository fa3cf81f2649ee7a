// Decides whether the ranks of a job sum in memory: on their one host, or on each of several.
#include "atp/collective/memory_way.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "atp/collective/host_lane.h"
#include "atp/collective/hosts.h"
#include "atp/collective/leader_uplink.h"
#include "atp/collective/number_text.h"
#include "atp/collective/operation_thread.h"

namespace atp {
namespace {

constexpr const char* kTakeTheNetwork = ", so they use the network";

std::string numbers_text(const CommunicatorOptions& options) {
  return format_text(static_cast<std::uint32_t>(options.number_format));
}

std::function<void(const std::string&)> lines_of(const CommunicatorOptions& options) {
  return [&options](const std::string& text) { options.warn(text); };
}

Result<MemoryMeeting> meet_on_one_host(const CommunicatorOptions& options) {
  std::string why_not = "the fixed scale needs the network";
  if (options.number_format != NumberFormat::kFixed) {
    Result<HostMeetingOutcome> outcome = meet_on_host({.job = options.job,
                                                       .rank = options.rank,
                                                       .world_size = options.world_size,
                                                       .timeout = options.join_timeout,
                                                       .interruption = options.interruption,
                                                       .numbers = numbers_text(options),
                                                       .warn = lines_of(options)});
    if (!outcome) return outcome.error();
    if (outcome.value().place) {
      auto lane = HostLane::open(options, *std::move(outcome.value().place));
      if (!lane) return lane.error();
      return MemoryMeeting{std::move(lane).value(), options.job};
    }
    why_not = outcome.value().why_not;
  }
  const std::string reason = "the ranks of this host cannot sum in shared memory (" + why_not + ")";
  if (options.route.empty()) {
    return Error{reason +
                 ", and no route to a server was given: set ATP_ROUTE, or start them under "
                 "`atp run --switch`"};
  }
  if (options.rank == 0) options.warn(reason + kTakeTheNetwork);
  return MemoryMeeting{nullptr, options.job};
}

// A rank's part in the meeting of a job with several hosts.
class OneOfSeveral {
 public:
  explicit OneOfSeveral(const CommunicatorOptions& options)
      : options_(options),
        hosts_(options.host_of),
        host_(options.host_of[options.rank]),
        ranks_(hosts_.ranks_on(host_)),
        rank_(static_cast<std::size_t>(std::find(ranks_.begin(), ranks_.end(), options.rank) -
                                       ranks_.begin())) {}

  Result<MemoryMeeting> meet();

 private:
  Status meet_here();
  Result<bool> lead();
  MemoryMeeting without_memory() const { return {nullptr, job_of_all_ranks(options_.job)}; }

  const CommunicatorOptions& options_;
  const Hosts hosts_;
  const std::size_t host_;
  const std::vector<Rank>& ranks_;  // of this host
  const std::size_t rank_;          // among them
  std::shared_ptr<HostLane> lane_;  // null: they have no shared memory,
  std::string why_not_;             // for this reason
};

Status OneOfSeveral::meet_here() {
  const HostOfSeveral of_several{
      .number = host_, .most_ranks = hosts_.most_ranks(), .ranks = ranks_};
  Result<HostMeetingOutcome> outcome = meet_on_host({.job = options_.job,
                                                     .rank = rank_,
                                                     .world_size = ranks_.size(),
                                                     .of_several = of_several,
                                                     .timeout = options_.join_timeout,
                                                     .interruption = options_.interruption,
                                                     .numbers = numbers_text(options_),
                                                     .warn = lines_of(options_)});
  if (!outcome) return outcome.error();
  why_not_ = outcome.value().why_not;
  if (!outcome.value().place) return ok_status();
  auto lane = HostLane::open(options_, *std::move(outcome.value().place));
  if (!lane) return lane.error();
  lane_ = std::move(lane).value();
  return ok_status();
}

// Meets the other leaders. Returns whether the ranks of all hosts have shared memory.
Result<bool> OneOfSeveral::lead() {
  Result<std::unique_ptr<LeaderUplink>> uplink = LeaderUplink::connect(options_);
  Result<bool> all = uplink ? uplink.value()->agree(lane_ != nullptr, options_) : uplink.error();
  if (lane_ == nullptr) {
    options_.warn("the ranks of the host of rank " + std::to_string(options_.rank) +
                  " cannot sum in shared memory (" + why_not_ + ")" + kTakeTheNetwork);
  } else if (!all) {
    lane_->give_up_meeting(all.error().message);
  } else if (all.value()) {
    lane_->lead(std::move(uplink).value());
    return true;
  } else {
    lane_->say_without_memory();
  }
  if (uplink && !all) uplink.value()->abort(all.error().message);
  if (all) static_cast<void>(uplink.value()->shutdown(left_until(*options_.join_until)));
  return all;
}

Result<MemoryMeeting> OneOfSeveral::meet() {
  const Status here = meet_here();
  if (!here) return here.error();
  const bool leads = rank_ == 0;
  if (!leads && lane_ == nullptr) return without_memory();
  const Result<bool> all = leads ? lead() : lane_->hear_of_leaders();
  if (all && all.value()) return MemoryMeeting{lane_, options_.job};
  if (lane_ != nullptr) lane_->abort(all ? "the job uses the network" : all.error().message);
  if (!all) return all.error();
  return without_memory();
}

}  // namespace

// The leaders have already joined the job as its workers, so all ranks together need another job.
// It has another number, because ranks in two incarnations of one job would get warnings.
JobKey job_of_all_ranks(const JobKey& job) {
  constexpr std::uint32_t kOther = 0x686f7374;
  return {atp_fmix32(job.job ^ kOther), job.incarnation};
}

Result<MemoryMeeting> meet_in_memory(const CommunicatorOptions& options) {
  if (sums_on_hosts(options)) return OneOfSeveral(options).meet();
  if (options.host_memory) return meet_on_one_host(options);
  return MemoryMeeting{nullptr, options.job};
}

}  // namespace atp
