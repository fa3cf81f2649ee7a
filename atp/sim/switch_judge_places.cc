// Where a switch may hold a fragment, what it notes at the fragment's home, and which job may claim
// an aggregator (docs/inside/protocol §4, *Places* and *Sharing*).
#include <algorithm>
#include <set>

#include "atp/sim/parameter_bytes.h"
#include "atp/sim/switch_judge.h"

namespace atp::sim {
namespace {

constexpr std::uint32_t kLeastClaimsOfPeriod = 64;

// How far the home is from the beginning of its region. The golden ratio's fraction keeps the
// tenants' beginnings apart.
std::uint32_t home_in(std::uint32_t size, std::uint32_t index, std::uint16_t tenant) {
  const std::uint32_t moved = index + tenant * 2'654'435'769U;
  return static_cast<std::uint32_t>((std::uint64_t{moved} * size) >> 32);
}

}  // namespace

bool SwitchJudge::has_fragment(const Cell& cell, const Identity& identity) {
  return cell.aggregating && cell.identity.job == identity.job &&
         cell.identity.stream == identity.stream && cell.identity.sequence == identity.sequence;
}

bool SwitchJudge::is_later(const std::optional<Identity>& noted, const Identity& identity) {
  return noted && noted->job == identity.job && noted->stream == identity.stream &&
         noted->sequence > identity.sequence;
}

SwitchJudge::Cell& SwitchJudge::aggregator_of(const Turn& turn) {
  const atp_header& header = turn.packet.header;
  const std::uint32_t size = turn.share.size;
  const std::uint32_t home = home_in(size, header.aggregator_index, header.tenant);
  const std::uint32_t count = std::min(config_.places, size);
  std::vector<Cell*> places;
  places.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    places.push_back(&cells_[turn.share.first + (home + i) % size]);
  }
  for (Cell* place : places) {
    if (has_fragment(*place, turn.packet.identity())) return *place;
  }
  for (Cell* place : places) {
    if (!place->aggregating) return *place;
  }
  return *places.front();
}

SwitchJudge::Notes& SwitchJudge::notes_of(const Turn& turn) {
  const atp_header& header = turn.packet.header;
  return notes_[turn.share.first +
                home_in(turn.share.size, header.aggregator_index, header.tenant)];
}

void SwitchJudge::note_return(Notes& notes, const Identity& identity) {
  if (!is_later(notes.returned, identity)) notes.returned = identity;
}

void SwitchJudge::release(const Turn& turn, Cell& cell) {
  note_return(notes_of(turn), cell.identity);
  make_empty(cell);
}

// Its job may have another region now than when its fragment claimed, or none.
void SwitchJudge::release_other(const SwitchNode& node, Cell& cell) {
  const JobKey& job = cell.identity.job;
  atp_share region{};
  node.for_each_tree([&](const Tree& tree, const atp_share& share) {
    if (tree.job().job == job.job && tree.job().tenant == job.tenant) region = share;
  });
  if (region.size > 0) {
    const std::uint32_t home = region.first + home_in(region.size, cell.index, job.tenant);
    note_return(notes_[home], cell.identity);
  }
  make_empty(cell);
}

bool SwitchJudge::has_parts() const {
  return config_.sharing.partitions == 0 && !config_.sharing.first_come;
}

void SwitchJudge::make_empty(Cell& cell) {
  --held_[{cell.identity.job.job, cell.identity.job.tenant}];
  cell = {};
}

std::uint64_t SwitchJudge::held_by(const JobKey& job) const {
  const auto found = held_.find({job.job, job.tenant});
  return found == held_.end() ? 0 : found->second;
}

std::uint64_t SwitchJudge::held_by_all() const {
  std::uint64_t held = 0;
  for (const auto& [job, count] : held_) held += count;
  return held;
}

// Whether the job holds as many as it may, or its tenant's jobs do together.
bool SwitchJudge::holds_its_quota(const JobKey& job) const {
  const std::uint32_t quota = config_.sharing.quota;
  if (quota != 0 && held_by(job) >= quota) return true;
  const std::uint32_t together = quota_of(config_.quotas, job.tenant).aggregators;
  if (together == 0) return false;
  std::uint64_t held = 0;
  for (const auto& [owner, count] : held_) held += owner.second == job.tenant ? count : 0;
  return held >= together;
}

// The others that count are those that were active in this period or in the one before.
std::uint64_t SwitchJudge::part_of(const JobKey& job) const {
  const std::uint64_t own = quota_of(config_.quotas, job).weight;
  std::uint64_t all = own;
  for (const auto& [other, period] : active_in_) {
    const bool counts = other != JobOfTenant{job.job, job.tenant} && period + 1 >= period_;
    if (counts) all += quota_of(config_.quotas, JobKey{other.first, 0, other.second}).weight;
  }
  return std::max<std::uint64_t>(1, config_.aggregators * own / all);
}

bool SwitchJudge::holds_its_part(const JobKey& job) const { return held_by(job) >= part_of(job); }

// What a PARAMETER must say when it leaves: the job's part, or what it may hold if this is less, or
// what a switch further up has said if this is still less.
std::uint8_t SwitchJudge::part_said(const Turn& turn) const {
  const std::uint8_t came = turn.packet.bytes[kAtPart];
  if (!has_parts()) return came;
  const JobKey job = turn.packet.job();
  std::uint64_t part = part_of(job);
  if (config_.sharing.quota != 0) part = std::min<std::uint64_t>(part, config_.sharing.quota);
  if (const std::uint32_t together = quota_of(config_.quotas, job.tenant).aggregators) {
    std::set<std::uint32_t> jobs;
    turn.node.for_each_tree([&](const Tree& tree, const atp_share&) {
      if (tree.job().tenant == job.tenant) jobs.insert(tree.job().job);
    });
    part = std::min(part, std::max<std::uint64_t>(1, together / jobs.size()));
  }
  const std::uint8_t own = part_of_number(part);
  return came == 0 ? own : std::min(came, own);
}

void SwitchJudge::note_active(const JobKey& job) { active_in_[{job.job, job.tenant}] = period_; }

// A claim ends the contention or the period that it is the last of.
void SwitchJudge::count_claim() {
  if (contested_ > 0) --contested_;
  if (++claims_ < std::max(config_.aggregators, kLeastClaimsOfPeriod)) return;
  claims_ = 0;
  ++period_;
  std::erase_if(active_in_, [&](const auto& active) { return active.second + 1 < period_; });
}

}  // namespace atp::sim
