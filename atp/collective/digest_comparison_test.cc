#include "atp/collective/digest_comparison.h"

#include <gmock/gmock.h>

#include <vector>

namespace atp {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Digest filled_with(std::uint8_t byte) {
  Digest digest;
  digest.bytes.fill(byte);
  digest.bytes[15] = 1;
  return digest;
}

// What the sum of all ranks' vectors is.
std::vector<std::uint32_t> side_by_side(const std::vector<std::uint8_t>& bytes) {
  std::vector<std::uint32_t> sum(kDigestWords * bytes.size());
  for (std::size_t rank = 0; rank < bytes.size(); ++rank) {
    std::vector<std::uint32_t> own(sum.size());
    write_digest(filled_with(bytes[rank]), static_cast<Rank>(rank), own);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += own[i];
  }
  return sum;
}

TEST(DigestComparison, HasNothingToSayOfEqualDigests) {
  EXPECT_EQ(digest_difference(side_by_side({7, 7, 7}), {0, 9}), std::nullopt);
  EXPECT_EQ(digest_difference(side_by_side({0}), {0, 9}), std::nullopt);
}

TEST(DigestComparison, NamesWhoDiffersFromMost) {
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
            "at rank 1, or for a program that writes to a tensor before its operation has ended");
}

}  // namespace
}  // namespace atp
