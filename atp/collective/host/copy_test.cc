#include "atp/collective/host/copy.h"

#include <gtest/gtest.h>

#include <vector>

namespace atp {
namespace {

TEST(Copy, CopiesEveryLengthToEveryAddressAndNothingElse) {
  constexpr std::byte kUntouched{0xee};
  std::vector<std::byte> from(1000);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i % 251);
  for (const std::size_t length : {0U, 1U, 31U, 127U, 128U, 129U, 256U, 700U}) {
    for (std::size_t offset = 0; offset < 40; offset += 3) {
      std::vector<std::byte> to(1000, kUntouched);
      copy_bytes(to.data() + offset, from.data() + 2 * offset, length);
      for (std::size_t i = 0; i < to.size(); ++i) {
        const bool is_copied = i >= offset && i < offset + length;
        ASSERT_EQ(to[i], is_copied ? from[i + offset] : kUntouched) << length << " at " << offset;
      }
    }
  }
}

}  // namespace
}  // namespace atp
