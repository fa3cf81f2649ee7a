// Where a switch may hold a fragment, what it notes at the fragment's home, and which job may claim
// an aggregator (docs/protocol.md §4, *Places* and *Sharing*).
#include <algorithm>

#include "atp/sim/switch_judge.h"

namespace atp::sim {
namespace {

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

bool SwitchJudge::holds_its_part(const JobKey& job) const {
  const std::uint64_t own = quota_of(config_.quotas, job.tenant).weight;
  std::uint64_t all = own;
  for (const auto& [owner, count] : held_) {
    const bool is_other = owner != JobOfTenant{job.job, job.tenant};
    if (is_other && count > 0) all += quota_of(config_.quotas, owner.second).weight;
  }
  const bool other_is_hungry =
      hungry_ && contested_ > 0 && *hungry_ != JobOfTenant{job.job, job.tenant};
  if (other_is_hungry) all += quota_of(config_.quotas, hungry_->second).weight;
  const std::uint64_t part = std::max<std::uint64_t>(1, config_.aggregators * own / all);
  return held_by(job) >= part;
}

}  // namespace atp::sim
