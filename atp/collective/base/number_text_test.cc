#include "atp/collective/base/number_text.h"

#include <gmock/gmock.h>

namespace atp {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(NumberText, SaysWhatIsCombinedAndHowItTravels) {
  struct Case {
    std::uint64_t values;
    OperationKind kind;
    const char* text;
  };
  const Case cases[] = {
      {1000, {}, "the sum of 1,000 float32 values in blocks of int32"},
      {1,
       {DataType::kBFloat16, Reduction::kAverage, NumberFormat::kBlocksInt16},
       "the average of 1 bfloat16 value in blocks of int16"},
      {7,
       {DataType::kFloat16, Reduction::kSum, NumberFormat::kExact},
       "the exact sum of 7 float16 values"},
      {7,
       {DataType::kFloat32, Reduction::kSum, NumberFormat::kFixed},
       "the sum of 7 float32 values with the fixed scale"},
      {7,
       {DataType::kInt32, Reduction::kSum, NumberFormat::kBlocksInt16},
       "the sum of 7 int32 values"},
      {7,
       {DataType::kFloat32, Reduction::kMin, NumberFormat::kBlocks},
       "the minimum of 7 float32 values"},
  };
  for (const Case& c : cases) EXPECT_EQ(operation_kind_text(c.values, c.kind), c.text);
}

TEST(NumberText, MakesOneFormatOfTheUsersChoices) {
  struct Case {
    NumberChoices choices;
    NumberFormat format;
  };
  const Case cases[] = {
      {{}, NumberFormat::kBlocks},
      {{.scale = "fixed"}, NumberFormat::kFixed},
      {{.wire = "int16"}, NumberFormat::kBlocksInt16},
      {{.exact = true}, NumberFormat::kExact},
  };
  for (const Case& c : cases) EXPECT_EQ(format_of(c.choices).value(), c.format);
}

TEST(NumberText, NamesTheChoicesThatExcludeEachOther) {
  EXPECT_THAT(format_of({.scale = "fixed", .wire = "int16"}).error().message,
              AllOf(HasSubstr("scale=fixed"), HasSubstr("cannot be combined with wire=int16")));
  EXPECT_THAT(format_of({.scale = "fixed", .exact = true}).error().message,
              AllOf(HasSubstr("scale=fixed"), HasSubstr("cannot be combined with exact=1")));
  EXPECT_THAT(format_of({.wire = "int16", .exact = true}).error().message,
              AllOf(HasSubstr("exact=1"), HasSubstr("wire=int16"), HasSubstr("choose one")));
}

TEST(NumberText, AllowsSixteenBitsForUpToSixtyFourRanks) {
  EXPECT_TRUE(check_format(NumberFormat::kBlocksInt16, 64).ok());
  EXPECT_TRUE(check_format(NumberFormat::kBlocks, 1024).ok());
  EXPECT_EQ(check_format(NumberFormat::kBlocksInt16, 65).error().message,
            "wire=int16 leaves each of 65 ranks too few bits; it is possible with up to 64 ranks: "
            "use wire=int32");
}

TEST(NumberText, SaysWhatAJobCannotDoAndSuggestsWhatItCan) {
  constexpr auto kJobOfBlocks = NumberFormat::kBlocks;
  constexpr auto kJobOfFixed = NumberFormat::kFixed;
  struct Case {
    const char* what;
    OperationKind kind;
    NumberFormat of_job;
    std::optional<NumberFormat> asked;
    std::size_t world_size;
    const char* complaint;  // empty: none
  };
  const Case cases[] = {
      {"a sum", {}, kJobOfBlocks, {}, 4, ""},
      {"a wire format other than the job's", {}, kJobOfBlocks, NumberFormat::kBlocksInt16, 64, ""},
      {"an exact one", {}, NumberFormat::kBlocksInt16, NumberFormat::kExact, 4, ""},
      {"int16 for too many",
       {},
       kJobOfBlocks,
       NumberFormat::kBlocksInt16,
       65,
       "up to 64 ranks: use wire=int32"},
      {"an average of integers",
       {DataType::kInt32, Reduction::kAverage},
       kJobOfBlocks,
       {},
       4,
       "int32 has no average"},
      {"a sum of integers over int16",
       {DataType::kInt32},
       kJobOfBlocks,
       NumberFormat::kBlocksInt16,
       1024,
       ""},
      {"bfloat16 with the fixed scale",
       {DataType::kBFloat16},
       kJobOfFixed,
       {},
       4,
       "a job with scale=fixed sums float32 and int32, and this is bfloat16: convert it to "
       "float32, or use scale=blocks"},
      {"integers with the fixed scale", {DataType::kInt32}, kJobOfFixed, {}, 4, ""},
      {"a maximum with the fixed scale",
       {DataType::kFloat16, Reduction::kMax},
       kJobOfFixed,
       {},
       4,
       ""},
      {"blocks with the fixed scale",
       {},
       kJobOfFixed,
       NumberFormat::kBlocks,
       4,
       "asks for blocks of int32 (wire=int32), and the job was started with a fixed scale "
       "(scale=fixed)"},
      {"the fixed scale in blocks",
       {},
       kJobOfBlocks,
       kJobOfFixed,
       4,
       "asks for a fixed scale (scale=fixed)"},
  };
  for (const Case& c : cases) {
    const Status status = check_kind(c.kind, c.of_job, c.asked, c.world_size);
    EXPECT_THAT(status.ok() ? "" : status.error().message, HasSubstr(c.complaint)) << c.what;
    EXPECT_EQ(status.ok(), c.complaint[0] == '\0') << c.what;
  }
}

TEST(NumberText, NamesTheOperation) {
  EXPECT_EQ(operation_text("all_reduce", 17, 1000), "all_reduce #17 (1,000 values)");
  EXPECT_EQ(operation_text("all_reduce", 0, 1), "all_reduce #0 (1 value)");
  EXPECT_EQ(operation_text("all_reduce", 17, 1000, 7), "all_reduce #17 (1,000 values, tag 7)");
}

}  // namespace
}  // namespace atp
