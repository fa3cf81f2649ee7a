#include "atp/cli/report/story.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "atp/base/text.h"
#include "atp/cli/report/report_text.h"

namespace atp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Ranks = std::vector<std::size_t>;

constexpr WallTime kSecond = 1'000'000'000;

// Records of a job of three ranks on one host, with an operation every tenth of a second.
class Job {
 public:
  explicit Job(std::size_t ranks = 3) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      FlightRecord record{.rank = rank, .host = "a", .reason = "test"};
      record.groups = {{.name = "0", .description = "default_pg", .job = "7/1"}};
      for (std::size_t member = 0; member < ranks; ++member) {
        record.groups[0].ranks.push_back(member);
      }
      records.push_back(std::move(record));
    }
  }

  Job& completes(std::int64_t number, std::int64_t late_ms = 0, std::size_t late_rank = 0) {
    for (FlightRecord& record : records) {
      begin(record, number, record.rank == late_rank ? late_ms : 0);
      record.operations.back().completed = at(number, late_ms + 1);
    }
    return *this;
  }
  // It begins and never ends on these ranks.
  Job& begins(std::int64_t number, const Ranks& ranks, const char* name = "all_reduce",
              std::int64_t values = 1000) {
    for (const std::size_t rank : ranks) {
      begin(records[rank], number, 0);
      records[rank].operations.back().name = name;
      records[rank].operations.back().input_values = values;
      records[rank].operations.back().sizes = "[" + std::to_string(values) + "]";
    }
    return *this;
  }
  Job& fails(std::size_t rank, WallTime seconds, const char* text, Ranks named = {}) {
    const WallTime time = seconds * kSecond;
    records[rank].events.push_back(
        {.time = time, .kind = "failure", .ranks = std::move(named), .text = text});
    for (auto& operation : records[rank].operations) {
      if (!operation.completed) operation.failed = time;
    }
    return *this;
  }
  Job& waits(std::size_t rank, Ranks ranks) {
    records[rank].events.push_back({.time = kSecond, .kind = "waiting", .ranks = std::move(ranks)});
    return *this;
  }
  Job& writes(WallTime seconds, const char* reason = "a failure") {
    for (FlightRecord& record : records) {
      record.written = seconds * kSecond;
      record.reason = reason;
    }
    return *this;
  }
  Job& loses(std::size_t rank) {
    records.erase(records.begin() + static_cast<std::ptrdiff_t>(rank));
    return *this;
  }
  // Moves the clock of a rank's host.
  Job& moves(std::size_t rank, std::int64_t ahead) {
    FlightRecord& record = records[rank];
    record.host = "b";
    record.written += ahead;
    for (auto& event : record.events) event.time += ahead;
    for (auto& operation : record.operations) {
      operation.begun += ahead;
      if (operation.completed) *operation.completed += ahead;
      if (operation.failed) *operation.failed += ahead;
    }
    return *this;
  }

  Story story() const { return tell_story(records, HostClocks(records), {}); }

  std::vector<FlightRecord> records;

 private:
  static WallTime at(std::int64_t number, std::int64_t ms) {
    return number * kSecond / 10 + ms * 1'000'000;
  }
  static void begin(FlightRecord& record, std::int64_t number, std::int64_t late_ms) {
    record.operations.push_back({.number = number,
                                 .name = "all_reduce",
                                 .type = "float32",
                                 .sizes = "[1000]",
                                 .input_values = 1000,
                                 .output_values = 1000,
                                 .begun = at(number, late_ms)});
  }
};

struct StoryCase {
  const char* what;
  Job job;
  std::string found;  // "": nothing
};

class Stories : public testing::TestWithParam<StoryCase> {};

TEST_P(Stories, NameTheRank) {
  std::string found;
  for (const Diagnosis& each : GetParam().job.story().findings) {
    found += each.kind + ", " + each.evidence + ": " + ranks_text(each.ranks);
  }
  EXPECT_EQ(found, GetParam().found);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Stories,
    testing::Values(
        StoryCase{"nothing_when_all_has_completed", Job().completes(1).completes(2).writes(1), ""},
        StoryCase{"nothing_when_an_operation_has_just_begun",
                  Job().completes(1).begins(2, {0, 1}).writes(1), ""},
        StoryCase{"nothing_when_one_file_was_written_before_the_others_began_the_next",
                  [] {
                    Job job = Job().completes(1).begins(2, {0, 1}).writes(10);
                    job.records[2].written = kSecond / 5;
                    return job;
                  }(),
                  ""},
        StoryCase{"a_rank_that_has_not_begun_what_others_wait_in",
                  Job().completes(1).begins(2, {0, 1}).writes(9), "waiting, not_begun: rank 2"},
        StoryCase{"the_end_of_a_chain_of_waits",
                  Job().begins(1, {0, 1}).waits(0, {1}).waits(1, {2}).writes(9),
                  "waiting, reported: rank 2"},
        StoryCase{"both_of_two_that_wait_for_each_other",
                  Job().begins(1, {0, 2}).waits(0, {1}).waits(1, {0}).writes(9),
                  "waiting, reported: ranks 0 and 1"},
        StoryCase{"a_rank_that_a_failure_names",
                  Job().begins(1, {0, 1}).fails(0, 5, "lost", {2}).fails(1, 5, "x").writes(6),
                  "failed, reported: rank 2"},
        StoryCase{
            "a_rank_that_left_no_file_and_is_named_by_a_text",
            Job().begins(1, {0, 1, 2}).fails(0, 1, "rank 2 (process 5) is lost").writes(1).loses(2),
            "failed, reported: rank 2"},
        StoryCase{"the_rank_without_a_file_and_not_the_one_that_passed_it_on",
                  Job()
                      .begins(1, {0, 1, 2})
                      .fails(0, 1, "rank 1 left: rank 2 is lost")
                      .writes(1)
                      .loses(2),
                  "failed, reported: rank 2"},
        StoryCase{"the_late_rank_and_not_another_that_a_text_names",
                  Job().begins(1, {0, 1}).fails(0, 30, "rank 1 left the job").writes(31),
                  "failed, not_begun: rank 2"},
        StoryCase{
            "the_first_failure_counts",
            Job().begins(1, {0, 1, 2}).fails(1, 5, "no", {2}).fails(0, 6, "no", {1}).writes(7),
            "failed, reported: rank 2"},
        StoryCase{"a_rank_without_a_file_if_nothing_names_one",
                  Job().begins(1, {0, 1, 2}).fails(0, 1, "something").writes(1).loses(1),
                  "failed, no_file: rank 1"},
        StoryCase{"a_rank_without_a_file_if_the_launcher_ended_the_others_at_once",
                  Job().completes(1).begins(2, {0, 1}).writes(1, "SIGTERM").loses(2),
                  "waiting, no_file: rank 2"},
        StoryCase{"nothing_when_a_rank_has_not_written_yet_and_the_others_have_just_begun",
                  Job().completes(1).begins(2, {0, 1}).writes(1, "SIGUSR1").loses(2), ""},
        StoryCase{"nobody_if_the_server_is_gone",
                  Job().begins(1, {0, 1, 2}).fails(0, 1, "server x does not answer").writes(1),
                  "failed, none: no rank"},
        StoryCase{"the_minority_when_sizes_differ",
                  Job()
                      .completes(1)
                      .begins(2, {0, 2})
                      .begins(2, {1}, "all_reduce", 999)
                      .fails(0, 1, "ranks 0 and 2 differ")
                      .writes(1),
                  "mismatch, differs: rank 1"},
        StoryCase{"the_minority_when_kinds_differ",
                  Job().begins(1, {1, 2}).begins(1, {0}, "broadcast").writes(9),
                  "mismatch, differs: rank 0"},
        StoryCase{"both_of_two_that_differ",
                  Job(2).begins(1, {0}).begins(1, {1}, "broadcast").writes(9),
                  "mismatch, differs: ranks 0 and 1"}),
    [](const auto& each) { return std::string(each.param.what); });

TEST(Story, SaysSinceWhenAndForHowLong) {
  const Story story = Job().completes(1).begins(2, {0, 1}).fails(0, 5, "x", {2}).writes(6).story();
  EXPECT_THAT(story.findings[0].waiting, ElementsAre(0, 1));
  EXPECT_EQ(story.findings[0].since, kSecond / 5);
  EXPECT_EQ(story.findings[0].until, 5 * kSecond);
  EXPECT_EQ(story.findings[0].operation, "all_reduce #2 of [1000] float32");
}

TEST(Story, CorrectsForClocksThatDiffer) {
  Job job;
  for (std::int64_t number = 1; number <= 20; ++number) job.completes(number);
  job.begins(21, {0, 1, 2}).writes(4).moves(2, 100 * kSecond);
  const HostClocks clocks(job.records);
  ASSERT_EQ(clocks.differences().size(), 1u);
  EXPECT_EQ(clocks.differences()[0].ahead, 100 * kSecond);
  EXPECT_THAT(job.story().findings, IsEmpty())
      << "uncorrected, rank 2 would be late by the difference";
}

TEST(Story, DoesNotCorrectClocksThatItCannotCompare) {
  Job job = Job().completes(1).writes(1);
  job.moves(2, 100 * kSecond);
  EXPECT_EQ(HostClocks(job.records).corrected("b", 7), 7);
}

TEST(Story, NamesTheRankThatUsedToBeLast) {
  Job job;
  for (std::int64_t number = 1; number <= 20; ++number) job.completes(number, 40, 1);
  const Story story = job.writes(9).story();
  ASSERT_EQ(story.lateness.size(), 1u);
  EXPECT_EQ(story.lateness[0].rank, 1u);
  EXPECT_EQ(story.lateness[0].last, 20u);
  EXPECT_EQ(story.lateness[0].median, 40'000'000);
}

TEST(Story, RefusesFilesOfTwoStartsOfAJob) {
  Job job;
  job.records[1].groups[0].job = "7/2";
  const Status one = check_one_job(job.records);
  ASSERT_FALSE(one.ok());
  EXPECT_THAT(one.error().message, HasSubstr("ranks 0 and 2 of job 7/1; rank 1 of job 7/2"));
}

TEST(Story, RefusesTwoFilesOfOneRank) {
  Job job;
  job.records[1].rank = 0;
  ASSERT_FALSE(check_one_job(job.records).ok());
}

TEST(Story, FindsTheRanksNamedInAText) {
  const std::pair<const char*, Ranks> cases[] = {
      {"rank 2 (10.0.0.1) is lost", {2}},
      {"ranks 0, 1 and 3 submitted another operation than rank 2", {0, 1, 2, 3}},
      {"ranks 4 to 7 and 9 left", {4, 5, 6, 7, 9}},
      {"no progress for 5 s", {}},
      {"rank", {}},
      {"ranks 5 to ", {5}},
  };
  for (const auto& [text, ranks] : cases) EXPECT_EQ(ranks_named_in(text), ranks) << text;
}

TEST(Report, IsTextAndJson) {
  const Job job = Job().completes(1).begins(2, {0, 1}).fails(0, 5, "rank 2 lost", {2}).writes(6);
  const HostClocks clocks(job.records);
  const std::string text = report_text(job.story(), clocks, {job.records, {"x: damaged"}});
  EXPECT_THAT(text, HasSubstr("Ranks 0 and 1 waited for rank 2 in all_reduce #2 of [1000] "
                              "float32 for 4.80 s, since 00:00:00.200"));
  EXPECT_THAT(text, HasSubstr("left out: x: damaged"));
  EXPECT_THAT(report_json(job.story(), clocks, {job.records, {}}),
              HasSubstr("\"evidence\": \"reported\""));
}

}  // namespace
}  // namespace atp
