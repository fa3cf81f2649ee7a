#include "atp/wire/lanes.h"

#include <gtest/gtest.h>

#include <vector>

#include "atp/base/random.h"

namespace atp {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes random_bytes(Random& random, std::size_t size) {
  Bytes bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random.next());
  return bytes;
}

// Reads one lane, widened to 64 bits.
std::int64_t lane(std::uint8_t kind, const Bytes& bytes, std::size_t i) {
  if (atp_value_bytes(kind) == 2) return static_cast<std::int16_t>(atp_load16(&bytes[2 * i]));
  return static_cast<std::int32_t>(atp_load32(&bytes[4 * i]));
}

std::int64_t combined(std::uint8_t kind, std::int64_t a, std::int64_t b) {
  if ((kind & ATP_KIND_REDUCTION) == ATP_KIND_MAX) return std::max(a, b);
  return atp_value_bytes(kind) == 2 ? static_cast<std::int16_t>(a + b)
                                    : static_cast<std::int32_t>(a + b);
}

TEST(Lanes, EveryKindCombinesAsItsNameSaysAtEveryLength) {
  Random random(3);
  for (const std::uint8_t kind :
       {ATP_KIND_SUM_PLAIN, ATP_KIND_MAX_PLAIN, ATP_KIND_EXPONENTS, ATP_KIND_SUM_FIXED,
        ATP_KIND_SUM_BLOCKS, ATP_KIND_SUM_BLOCKS_INT16}) {
    for (std::size_t count = 1; count <= 67; ++count) {
      const std::size_t size = count * atp_value_bytes(kind);
      const Bytes a = random_bytes(random, size);
      const Bytes b = random_bytes(random, size);
      Bytes sum(size);
      Bytes out(size);
      store_lanes(kind, sum.data(), a.data(), size);
      load_lanes(kind, sum.data(), out.data(), size);
      EXPECT_EQ(out, a);
      combine_lanes(kind, sum.data(), b.data(), size);
      load_lanes(kind, sum.data(), out.data(), size);
      Bytes again(size);
      store_lanes(kind, sum.data(), a.data(), size);
      combine_and_load_lanes(kind, sum.data(), b.data(), again.data(), size);
      EXPECT_EQ(again, out);
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(lane(kind, out, i), combined(kind, lane(kind, a, i), lane(kind, b, i)))
            << "kind " << int{kind} << ", lane " << i << " of " << count;
      }
    }
  }
}

}  // namespace
}  // namespace atp
