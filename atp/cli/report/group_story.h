#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "atp/cli/report/host_clocks.h"
#include "atp/cli/report/rank_record.h"
#include "atp/cli/report/story.h"

// Compares what the ranks of one group did in each operation, and finds the first one that not all
// of them have completed.

namespace atp {

// A rank of a group, from its file.
struct Member {
  const RankRecord* record = nullptr;
  const RankRecord::Group* group = nullptr;
  std::map<std::int64_t, const RankRecord::Operation*> operations;  // collectives, by number
  std::vector<const RankRecord::Operation*> transfers;
};

using Members = std::vector<Member>;  // by rank

// The members of each group, the largest and oldest group first.
std::vector<Members> members_of_groups(const std::vector<RankRecord>& records);

// `recorded`: the ranks of the job that left a file; it and the clocks must outlive this.
class GroupStory {
 public:
  GroupStory(Members members, const HostClocks& clocks, const std::vector<std::size_t>& recorded)
      : members_(std::move(members)), clocks_(clocks), recorded_(recorded) {}

  std::optional<Finding> finding();
  std::optional<Lateness> lateness() const;

 private:
  using Ranks = std::vector<std::size_t>;
  struct FirstFailure {
    WallTime time = 0;
    std::size_t rank = 0;
    std::string text;
    Ranks ranks;
  };

  const RankRecord::Group& group() const { return *members_.front().group; }
  std::string name() const {
    const std::string& description = group().description;
    return description == "undefined" ? group().name : group().name + " (" + description + ")";
  }
  WallTime on(const Member& member, WallTime time) const {
    return clocks_.corrected(member.record->host, time);
  }
  Ranks without_file() const;

  std::optional<std::int64_t> first_mismatch() const;
  std::optional<std::int64_t> first_unfinished() const;
  std::optional<FirstFailure> first_failure() const;
  Ranks waits_reported() const;
  Ranks who_differs(std::int64_t number) const;
  std::optional<std::int64_t> common_begin() const;
  void describe(std::int64_t number, Finding& finding) const;
  void judge(const std::optional<FirstFailure>& failure, Finding& finding) const;
  Ranks late(const Finding& finding) const;
  std::optional<Finding> of_transfers() const;

  const Members members_;
  const HostClocks& clocks_;
  const std::vector<std::size_t>& recorded_;
};

}  // namespace atp
