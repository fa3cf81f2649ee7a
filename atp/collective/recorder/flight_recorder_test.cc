#include "atp/collective/recorder/flight_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "atp/collective/recorder/record_files.h"

namespace atp {
namespace {

using State = Recording::State;
using testing::ElementsAre;
using testing::HasSubstr;

RecordedGroupInfo group_of(std::size_t rank = 0) {
  return {.name = "0", .job = "7/1", .rank = rank, .ranks = {0, 1, 2}};
}

std::vector<std::uint64_t> numbers_of(const Recording& recording) {
  std::vector<std::uint64_t> numbers;
  for (const auto& operation : recording.operations) numbers.push_back(operation.start.number);
  return numbers;
}

TEST(FlightRecorder, KeepsTheLastOperationsInTheirOrder) {
  FlightRecorder recorder(3);
  const auto group = recorder.open(group_of());
  for (std::uint64_t number = 0; number < 5; ++number) recorder.begin(group, {.number = number});
  const Recording recording = recorder.read();
  EXPECT_THAT(numbers_of(recording), ElementsAre(2, 3, 4));
  EXPECT_EQ(recording.overwritten_operations, 2u);
}

TEST(FlightRecorder, KnowsWhichOperationsHaveEndedAndHow) {
  FlightRecorder recorder(8);
  const auto group = recorder.open(group_of());
  const auto first = recorder.begin(group, {});
  const auto second = recorder.begin(group, {});
  recorder.begin(group, {});
  recorder.end(second, false);
  recorder.end(first, true);
  const Recording recording = recorder.read();
  EXPECT_EQ(recording.operations[0].state, State::kCompleted);
  EXPECT_EQ(recording.operations[1].state, State::kFailed);
  EXPECT_EQ(recording.operations[2].state, State::kBegun);
  EXPECT_GE(recording.operations[0].ended, recording.operations[0].begun);
}

TEST(FlightRecorder, DoesNotEndTheOperationThatHasTakenThePlaceOfAnother) {
  FlightRecorder recorder(2);
  const auto group = recorder.open(group_of());
  const auto old = recorder.begin(group, {.number = 0});
  recorder.begin(group, {.number = 1});
  recorder.begin(group, {.number = 2});
  recorder.end(old, true);
  for (const auto& operation : recorder.read().operations) {
    EXPECT_EQ(operation.state, State::kBegun);
  }
}

TEST(FlightRecorder, NumbersCollectivesWithoutTheTransfersBetweenThem) {
  FlightRecorder recorder(8);
  const auto group = recorder.open(group_of());
  recorder.begin(group, {});
  recorder.begin(group, {.is_transfer = true});
  recorder.begin(group, {});
  const auto& operations = recorder.read().operations;
  EXPECT_EQ(operations[0].id, 0u);
  EXPECT_EQ(operations[1].id, 0u);
  EXPECT_EQ(operations[2].id, 1u);
}

TEST(FlightRecorder, RecordsNothingWhenItsSizeIsZero) {
  FlightRecorder recorder(0);
  const auto group = recorder.open(group_of());
  recorder.end(recorder.begin(group, {}), true);
  EXPECT_FALSE(recorder.note(group, RecordedKind::kFailure, "why"));
  EXPECT_TRUE(recorder.read().groups.empty());
}

TEST(FlightRecorder, TakesTheRepeatsOfAFailureForOne) {
  FlightRecorder recorder(8);
  const auto group = recorder.open(group_of());
  EXPECT_TRUE(recorder.note(group, RecordedKind::kFailure, "rank 2 lost", {2}));
  EXPECT_FALSE(recorder.note(group, RecordedKind::kFailure, "all_reduce #3: rank 2 lost"));
  EXPECT_FALSE(recorder.note(group, RecordedKind::kFailure, "something else"));
  const Recording recording = recorder.read();
  ASSERT_EQ(recording.events.size(), 2u);
  EXPECT_THAT(recording.events[0].ranks, ElementsAre(2));
  EXPECT_EQ(recording.events[1].text, "something else");
  EXPECT_EQ(recording.groups[0].failure, "rank 2 lost");
}

TEST(FlightRecorder, CutsLongTextsAndLongListsOfRanks) {
  FlightRecorder recorder(8);
  const auto group = recorder.open(group_of());
  recorder.note(group, RecordedKind::kWarning, std::string(5000, 'x'),
                {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  const Recording recording = recorder.read();
  EXPECT_LT(recording.events[0].text.size(), 500u);
  EXPECT_EQ(recording.events[0].ranks.size(), 8u);
}

TEST(FlightRecorder, KeepsTheLastEvents) {
  FlightRecorder recorder(8);
  const auto group = recorder.open(group_of());
  for (std::size_t i = 0; i < FlightRecorder::kEvents + 3; ++i) {
    recorder.note(group, RecordedKind::kWarning, std::to_string(i));
  }
  const Recording recording = recorder.read();
  EXPECT_EQ(recording.events.size(), FlightRecorder::kEvents);
  EXPECT_EQ(recording.events.front().text, "3");
  EXPECT_EQ(recording.overwritten_events, 3u);
}

TEST(FlightRecorder, ForgetsGroupsThatWereClosedLongAgoAndTheirOperations) {
  FlightRecorder recorder(2000);
  const auto first = recorder.open(group_of());
  for (int i = 0; i < 1000; ++i) {
    const auto group = recorder.open(group_of());
    recorder.begin(group, {});
    recorder.close(group);
  }
  recorder.begin(first, {.number = 5});
  const Recording recording = recorder.read();
  EXPECT_LE(recording.groups.size(), 256u);
  EXPECT_FALSE(recording.groups.front().closed);
  EXPECT_EQ(recording.operations.back().group, 0u);
  EXPECT_EQ(recording.operations.back().start.number, 5u);
}

TEST(FlightRecorder, MayBeUsedByManyThreads) {
  FlightRecorder recorder(100);
  const auto group = recorder.open(group_of());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 1000; ++n) recorder.end(recorder.begin(group, {}), true);
      static_cast<void>(recorder.read());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(recorder.read().overwritten_operations, 3900u);
}

TEST(RecordEncoding, WritesOnlyTheOneRanksGroups) {
  FlightRecorder recorder(8);
  const auto of_zero = recorder.open(group_of(0));
  const auto of_one = recorder.open({.name = "other", .job = "7/1", .rank = 1, .ranks = {0, 1}});
  recorder.begin(of_zero, {.name = "broadcast"});
  recorder.begin(of_one, {.name = "barrier"});
  const std::string bytes = encode_records(recorder.read(), {.rank = 1});
  EXPECT_THAT(bytes, HasSubstr("gloo:barrier"));
  EXPECT_THAT(bytes, Not(HasSubstr("gloo:broadcast")));
}

struct SettingsCase {
  const char* what;
  const char* variable;
  const char* value;
  const char* prefix;
  std::size_t size;
  const char* error;  // empty: none
};

class Settings : public testing::TestWithParam<SettingsCase> {};

TEST_P(Settings, FollowTheEnvironment) {
  const SettingsCase& each = GetParam();
  for (const char* name :
       {"ATP_FLIGHT_RECORDER", "ATP_FLIGHT_RECORDER_SIZE", "TORCH_FR_BUFFER_SIZE",
        "TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"}) {
    unsetenv(name);
  }
  setenv(each.variable, each.value, 1);
  const auto settings = RecorderSettings::from_environment();
  unsetenv(each.variable);
  if (*each.error != '\0') {
    ASSERT_FALSE(settings.ok());
    EXPECT_THAT(settings.error().message, HasSubstr(each.error));
    return;
  }
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings.value().prefix, each.prefix);
  EXPECT_EQ(settings.value().size, each.size);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Settings,
    testing::Values(
        SettingsCase{"a_folder", "ATP_FLIGHT_RECORDER", "/fr", "/fr/atp_rank_", 2000, ""},
        SettingsCase{"a_slash", "ATP_FLIGHT_RECORDER", "/fr/", "/fr/atp_rank_", 2000, ""},
        SettingsCase{"nothing", "ATP_FLIGHT_RECORDER", "", "", 2000, ""},
        SettingsCase{"torch_prefix", "TORCH_FR_DUMP_TEMP_FILE", "/fr/t_", "/fr/t_", 2000, ""},
        SettingsCase{"older_prefix", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "/n_", "/n_", 2000, ""},
        SettingsCase{"a_size", "ATP_FLIGHT_RECORDER_SIZE", "50", "", 50, ""},
        SettingsCase{"torch_size", "TORCH_FR_BUFFER_SIZE", "0", "", 0, ""},
        SettingsCase{"no_number", "ATP_FLIGHT_RECORDER_SIZE", "many", "", 0, "=\"many\" is not"},
        SettingsCase{"negative", "ATP_FLIGHT_RECORDER_SIZE", "-1", "", 0, "=\"-1\" is not"},
        SettingsCase{"too_many", "TORCH_FR_BUFFER_SIZE", "1000001", "", 0, "is not"}),
    [](const auto& each) { return std::string(each.param.what); });

}  // namespace
}  // namespace atp
