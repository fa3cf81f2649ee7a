#include "atp/driver/keys/siphash_lanes.h"

#include <gtest/gtest.h>

#include <vector>

#include "atp/driver/keys/mac.h"

namespace atp {
namespace {

constexpr std::size_t kLongest = 1500;

// As many different messages as a vector register has lanes.
struct Messages {
  Messages() {
    std::uint64_t state = 7;
    for (std::uint8_t& byte : bytes) {
      state = state * 6364136223846793005 + 1442695040888963407;
      byte = static_cast<std::uint8_t>(state >> 56);
    }
    for (std::size_t i = 0; i < kMany; ++i) at.push_back(bytes.data() + i * kLongest);
  }

  static constexpr std::size_t kMany = 2 * kMaxHashLanes + 5;
  std::vector<std::uint8_t> bytes = std::vector<std::uint8_t>(kMany * kLongest);
  std::vector<const std::uint8_t*> at;
};

PacketKey key() {
  PacketKey key;
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::uint8_t>(200 + 3 * i);
  return key;
}

// The numbers of lanes that this processor has; without any, packet_tags() hashes one packet at a
// time.
std::vector<std::size_t> widths_here() {
  std::vector<std::size_t> widths{4, 8};
  std::erase_if(widths, [](std::size_t lanes) { return lanes > hash_lanes_here(); });
  return widths;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SipHashLanes);
class SipHashLanes : public testing::TestWithParam<std::size_t> {};

TEST_P(SipHashLanes, HashEachMessageAsLibsodiumDoes) {
  const std::size_t lanes = GetParam();
  const Messages messages;
  for (const std::size_t length : {0, 1, 7, 8, 9, 15, 16, 47, 48, 255, 256, 1432, 1440, 1500}) {
    std::vector<std::uint64_t> hashes(lanes);
    hash_lanes(lanes, key(), messages.at.data(), length, hashes.data());
    for (std::size_t i = 0; i < lanes; ++i) {
      EXPECT_EQ(hashes[i], packet_tag(key(), {messages.at[i], length})) << i << " of " << length;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, SipHashLanes, testing::ValuesIn(widths_here()));

TEST(PacketTags, AreThoseOfThePacketsAloneWhateverTheirNumber) {
  const Messages messages;
  for (std::size_t count = 0; count <= Messages::kMany; ++count) {
    std::vector<std::uint64_t> tags(count + 1, 99);
    packet_tags(key(), std::span(messages.at).first(count), 1432, tags.data());
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(tags[i], packet_tag(key(), {messages.at[i], 1432})) << i << " of " << count;
    }
    EXPECT_EQ(tags[count], 99u) << "nothing is written after the last";
  }
}

}  // namespace
}  // namespace atp
