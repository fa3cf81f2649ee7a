#include "atp/collective/base/result_digest.h"

#include <gmock/gmock.h>

#include <set>
#include <string>
#include <vector>

namespace atp {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

void add(ResultDigest& digest, std::uint64_t operation, const std::string& result,
         DataType type = DataType::kFloat32) {
  digest.add(operation, type, bytes_of(result));
}

std::string of(const std::vector<std::string>& results) {
  ResultDigest digest;
  for (std::size_t i = 0; i < results.size(); ++i) add(digest, i, results[i]);
  return digest.read().digest.text();
}

TEST(ResultDigest, HasTheBitsGivenInTheDocumentation) {
  // XXH3_128bits of the text in docs/inside/torch-internals.md, computed with Debian's xxhsum.
  ResultDigest digest;
  EXPECT_EQ(digest.read().digest.text(), std::string(32, '0')) << "no results";
  add(digest, 0, "abc");
  EXPECT_EQ(digest.read().digest.text(), "59d2411ccf038bed708e128d2fb70870");
}

TEST(ResultDigest, DiffersWhereverResultsDo) {
  const std::set<std::string> different = {
      of({"a"}),     of({"b"}),     of({"a", "b"}), of({"b", "a"}), of({"ab"}),
      of({"a", ""}), of({"", "a"}), of({""}),       of({"a", "a"}), of({"a", "bb"})};
  EXPECT_EQ(different.size(), 10U);
  ResultDigest of_integers;
  add(of_integers, 0, "a", DataType::kInt32);
  EXPECT_NE(of_integers.read().digest.text(), of({"a"})) << "the type counts";
  ResultDigest of_failure;
  of_failure.add_failed(0);
  EXPECT_NE(of_failure.read().digest.text(), of({""}));
}

TEST(ResultDigest, FoldsByNumberInWhateverOrderOperationsEnd) {
  ResultDigest digest;
  add(digest, 2, "c");
  add(digest, 1, "b");
  EXPECT_EQ(digest.read().operations, 0U) << "the first one is still in flight";
  EXPECT_EQ(digest.read().digest, Digest{});
  add(digest, 0, "a");
  EXPECT_EQ(digest.read().operations, 3U);
  EXPECT_EQ(digest.read().digest.text(), of({"a", "b", "c"}));
}

TEST(ResultDigest, RestartsAsIfNothingHadBeenAdded) {
  ResultDigest digest;
  add(digest, 0, "of another step");
  EXPECT_EQ(digest.restart().digest.text(), of({"of another step"}));
  add(digest, 1, "a");
  add(digest, 2, "b");
  EXPECT_EQ(digest.read().operations, 2U);
  EXPECT_EQ(digest.read().digest.text(), of({"a", "b"}));
}

Digest filled_with(std::uint8_t byte) {
  Digest digest;
  digest.bytes.fill(byte);
  digest.bytes[15] = 1;
  return digest;
}

// The sum of all ranks' vectors.
std::vector<std::uint32_t> side_by_side(const std::vector<std::uint8_t>& bytes) {
  std::vector<std::uint32_t> sum(kDigestWords * bytes.size());
  for (std::size_t rank = 0; rank < bytes.size(); ++rank) {
    std::vector<std::uint32_t> own(sum.size());
    write_digest(filled_with(bytes[rank]), static_cast<Rank>(rank), own);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += own[i];
  }
  return sum;
}

TEST(DigestComparison, IsSilentAboutEqualDigests) {
  EXPECT_EQ(digest_difference(side_by_side({7, 7, 7}), {0, 9}), std::nullopt);
  EXPECT_EQ(digest_difference(side_by_side({0}), {0, 9}), std::nullopt);
}

TEST(DigestComparison, NamesTheRanksThatDifferFromMost) {
  struct Case {
    std::vector<std::uint8_t> digests;
    const char* text;
  };
  const Case cases[] = {
      {{7, 7, 8, 7}, "the results of rank 2 differ from those of ranks 0, 1 and 3 in"},
      {{8, 7, 7, 9}, "the results of ranks 0 and 3 differ from those of ranks 1 and 2 in"},
      {{7, 8}, "the results of rank 1 differ from those of rank 0 in"},
  };
  for (const Case& c : cases) {
    const auto difference = digest_difference(side_by_side(c.digests), {100, 199});
    ASSERT_TRUE(difference) << c.text;
    EXPECT_THAT(*difference, AllOf(HasSubstr(c.text), HasSubstr("operations 100 to 199")));
  }
}

TEST(DigestComparison, ShowsBothDigestsAndWhereToLook) {
  EXPECT_EQ(digest_difference(side_by_side({0x11, 0xab, 0x11}), {0, 9}),
            "the results of rank 1 differ from those of ranks 0 and 2 in operations 0 to 9 or "
            "before them (digest 11111111111111111111111111111101, not "
            "ababababababababababababababab01): look for faulty memory or a faulty network card "
            "on rank 1, or for a program that writes to a tensor before its operation has ended");
}

}  // namespace
}  // namespace atp
