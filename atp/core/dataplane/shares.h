#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "atp/core/dataplane/aggregator.h"

// How a switch's aggregators are shared among the jobs (docs/protocol.md §4, *Sharing*). First
// come, first served unless the configuration says otherwise: a static partition gives each job a
// region of its own, a quota bounds what a job may hold at a time. A job is a job whatever its
// incarnation and however many trees it has here, so that no restart makes it two.
//
// A share lives as long as its job has a tree here or an aggregator, so the count of what it holds
// is exact; only its region goes to the next job as soon as the last tree is gone.

// Beside its type, so that it is found.
bool operator==(const atp_share& a, const atp_share& b);

namespace atp {

struct SharingConfig {
  std::uint32_t partitions = 0;  // equal regions, one for each job; 0: no partition
  std::uint32_t quota = 0;       // most aggregators of a job; 0: no quota

  bool operator==(const SharingConfig&) const = default;
};

class Shares {
 public:
  using Id = std::uint16_t;
  static constexpr std::size_t kMax = 65536;
  static constexpr std::size_t kBytes = 32;  // of one

  Shares(const SharingConfig& config, std::uint32_t aggregators);

  // Is there a share for one more job?
  bool has_room() const;
  // Does every region belong to a job?
  bool partition_is_full() const;
  // A tree of the job is made, or gone. Of enter() there may be kMax at a time.
  Id enter(std::uint32_t job);
  void leave(Id id);

  const atp_share& operator[](Id id) const { return entries_[id].share; }
  void note_claim(Id id) { ++entries_[id].share.held; }
  void note_release(Id id) { --entries_[id].share.held; }

  bool operator==(const Shares&) const = default;

 private:
  struct Entry {
    atp_share share{};
    std::uint32_t job = 0;
    std::uint32_t trees = 0;

    bool in_use() const { return trees > 0 || share.held > 0; }
    bool operator==(const Entry&) const = default;
  };

  Id entry_of(std::uint32_t job);
  void give_region(atp_share& share) const;
  bool is_taken(std::uint32_t first) const;

  SharingConfig config_;
  std::uint32_t aggregators_;
  std::vector<Entry> entries_;
};

}  // namespace atp
