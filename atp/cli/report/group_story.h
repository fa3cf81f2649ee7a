#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "atp/cli/report/flight_record.h"
#include "atp/cli/report/host_clocks.h"
#include "atp/cli/report/story.h"

// Compares what the ranks of one group did in each operation, and finds the first one that not all
// of them have completed.

namespace atp {

// A rank of a group, from its file.
struct GroupMember {
  const FlightRecord* record = nullptr;
  const FlightRecord::Group* group = nullptr;
  std::map<std::int64_t, const FlightRecord::Operation*> operations;  // collectives, by number
  std::vector<const FlightRecord::Operation*> transfers;
};

using GroupMembers = std::vector<GroupMember>;  // by rank

// The members of each group, the largest and oldest group first.
std::vector<GroupMembers> members_of_groups(const std::vector<FlightRecord>& records);

// `recorded`: the job's ranks that left a file; it and the clocks must outlive this.
class GroupStory {
 public:
  GroupStory(GroupMembers members, const HostClocks& clocks,
             const std::vector<std::size_t>& recorded)
      : members_(std::move(members)), clocks_(clocks), recorded_(recorded) {}

  std::optional<Diagnosis> finding();
  std::optional<GroupLateness> lateness() const;

 private:
  using Ranks = std::vector<std::size_t>;
  struct FirstFailure {
    WallTime time = 0;
    std::size_t rank = 0;
    std::string text;
    Ranks ranks;
  };

  const FlightRecord::Group& group() const { return *members_.front().group; }
  std::string name() const {
    const std::string& description = group().description;
    return description == "undefined" ? group().name : group().name + " (" + description + ")";
  }
  WallTime on(const GroupMember& member, WallTime time) const {
    return clocks_.corrected(member.record->host, time);
  }
  Ranks without_file() const;

  std::optional<std::int64_t> first_mismatch() const;
  std::optional<std::int64_t> first_unfinished() const;
  std::optional<FirstFailure> first_failure() const;
  Ranks waits_reported() const;
  Ranks who_differs(std::int64_t number) const;
  std::optional<std::int64_t> common_begin() const;
  void describe(std::int64_t number, Diagnosis& finding) const;
  void judge(const std::optional<FirstFailure>& failure, Diagnosis& finding) const;
  Ranks late(const Diagnosis& finding) const;
  std::optional<Diagnosis> of_transfers() const;

  const GroupMembers members_;
  const HostClocks& clocks_;
  const std::vector<std::size_t>& recorded_;
};

}  // namespace atp
