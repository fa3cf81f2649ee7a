#include "atp/collective/result_digest.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace atp {
namespace {

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

TEST(ResultDigest, HasTheBitsThatThePageSays) {
  // XXH3_128bits of what stands in docs/torch.md, computed with Debian's xxhsum.
  ResultDigest digest;
  EXPECT_EQ(digest.read().digest.text(), std::string(32, '0')) << "of nothing";
  add(digest, 0, "abc");
  EXPECT_EQ(digest.read().digest.text(), "59d2411ccf038bed708e128d2fb70870");
}

TEST(ResultDigest, DiffersWhereverResultsDo) {
  const std::set<std::string> different = {
      of({"a"}),      of({"b"}),      of({"a", "b"}), of({"b", "a"}),
      of({"ab"}),     of({"a", ""}),  of({"", "a"}),  of({""}),
      of({"a", "a"}), of({"a", "bb"})};
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
  EXPECT_EQ(digest.read().operations, 0U) << "the first one is still under way";
  EXPECT_EQ(digest.read().digest, Digest{});
  add(digest, 0, "a");
  EXPECT_EQ(digest.read().operations, 3U);
  EXPECT_EQ(digest.read().digest.text(), of({"a", "b", "c"}));
}

TEST(ResultDigest, BeginsAnewAsIfNothingHadBeen) {
  ResultDigest digest;
  add(digest, 0, "of another step");
  EXPECT_EQ(digest.restart().digest.text(), of({"of another step"}));
  add(digest, 1, "a");
  add(digest, 2, "b");
  EXPECT_EQ(digest.read().operations, 2U);
  EXPECT_EQ(digest.read().digest.text(), of({"a", "b"}));
}

}  // namespace
}  // namespace atp
