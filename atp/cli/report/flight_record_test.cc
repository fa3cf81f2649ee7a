#include "atp/cli/report/flight_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "atp/cli/report/pickle_reader.h"
#include "atp/collective/recorder/pickle_writer.h"
#include "atp/collective/recorder/record_files.h"

namespace atp {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

std::string some_file() {
  FlightRecorder recorder(8);
  const auto group = recorder.open({.name = "0", .job = "7/1", .rank = 3, .ranks = {1, 3}});
  RecordedShape shape{.tensors = 1, .dimensions = 2, .sizes = {2, 500}};
  const auto token = recorder.begin(group, {.name = "all_gather_single",
                                            .path = "ring",
                                            .type = "float32",
                                            .number = 17,
                                            .tag = 5,
                                            .input = shape,
                                            .output = RecordedShape::of_values(2000)});
  recorder.end(token, true);
  recorder.begin(group, {.name = "send",
                         .type = "int64",
                         .number = 2,
                         .is_transfer = true,
                         .peer = 0,
                         .input = shape});
  recorder.note(group, RecordedKind::kFailure, "rank 1 is lost\n", {1});
  return encode_records(recorder.read(), {.rank = 3,
                                          .host = "h",
                                          .process = 99,
                                          .reason = "SIGUSR1",
                                          .steady_to_wall = seconds(1'000'000)});
}

TEST(FlightRecord, ReadsWhatTheRecorderWrites) {
  const auto record = read_flight_record(some_file(), "f");
  ASSERT_TRUE(record.ok()) << record.error().message;
  const FlightRecord& read = record.value();
  EXPECT_EQ(read.rank, 3u);
  EXPECT_EQ(read.host, "h");
  EXPECT_EQ(read.reason, "SIGUSR1");
  ASSERT_EQ(read.operations.size(), 2u);
  const auto& first = read.operations[0];
  EXPECT_EQ(first.name, "all_gather_single");
  EXPECT_EQ(first.number, 17);
  EXPECT_EQ(first.sizes, "[2,500]");
  EXPECT_EQ(first.input_values, 1000);
  EXPECT_EQ(first.output_values, 2000);
  EXPECT_EQ(first.tag, 5);
  ASSERT_TRUE(first.completed);
  EXPECT_GT(first.begun, std::chrono::nanoseconds(seconds(1'000'000)).count());
  EXPECT_EQ(read.operations[1].name, "send 1->0");
  ASSERT_EQ(read.events.size(), 1u);
  EXPECT_EQ(read.events[0].kind, "failure");
  EXPECT_EQ(read.events[0].text, "rank 1 is lost?");
  EXPECT_EQ(read.events[0].ranks, (std::vector<std::size_t>{1}));
}

TEST(FlightRecord, RefusesAFileThatIsCutAnywhere) {
  const std::string whole = some_file();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(read_flight_record(whole.substr(0, size), "f").ok()) << size;
  }
}

TEST(FlightRecord, SurvivesAnyChangedByte) {
  const std::string whole = some_file();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char by : {'\0', '(', 'u', '.', '\xff'}) {
      std::string changed = whole;
      changed[at] = by;
      static_cast<void>(read_flight_record(changed, "f").ok());
    }
  }
}

TEST(FlightRecord, SaysWhatIsWrongWithAForeignFile) {
  const auto message = [](const std::string& bytes) {
    return read_flight_record(bytes, "f").error().message;
  };
  EXPECT_THAT(message("hello"), HasSubstr("not a flight-recorder file of atp"));
  EXPECT_THAT(message("\x80\x02}q\x01(X\x09pg_configcomm_lib_version"),
              HasSubstr("read it with `python -m torch"));
  const std::string ours = some_file();
  const std::size_t groups = ours.find("pg_config");
  ASSERT_NE(groups, std::string::npos);
  for (std::size_t size = groups; size < ours.size(); ++size) {
    EXPECT_THAT(message(ours.substr(0, size)), HasSubstr("damaged, or not a")) << size;
  }
  PickleWriter empty;
  empty.begin_dict();
  empty.end_dict();
  EXPECT_THAT(message(std::move(empty).finish()), HasSubstr("not a flight-recorder file of atp"));
}

TEST(Pickle, KeepsAllValues) {
  PickleWriter writer;
  writer.begin_list();
  for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-1}, INT64_MAX, INT64_MIN,
                                   std::int64_t{INT32_MIN}, std::int64_t{INT32_MAX} + 1}) {
    writer.integer(value);
  }
  writer.real(-0.5);
  writer.none();
  writer.boolean(true);
  writer.text("a");
  writer.text("b\xc3\xa9");
  writer.end_pair();
  writer.end_list();
  const auto read = read_pickle(std::move(writer).finish());
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read.value().dump(),
            "[0,-1,9223372036854775807,-9223372036854775808,-2147483648,2147483648,-0.5,null,true,"
            "[\"a\",\"b??\"]]");
}

TEST(Pickle, RefusesCodeAndDeepNesting) {
  const auto why = [](const std::string& codes) {
    return read_pickle("\x80\x02" + codes).error().message;
  };
  EXPECT_THAT(why("cos\nsystem\n."), HasSubstr("codes that atp does not write"));
  EXPECT_THAT(why(std::string(100000, '(') + "."), HasSubstr("nested too deeply"));
  EXPECT_THAT(why("."), HasSubstr("ends too early"));
  EXPECT_THAT(why("(u."), HasSubstr("do not match"));
  EXPECT_THAT(why("](\x86."), HasSubstr("do not match"));
}

}  // namespace
}  // namespace atp
