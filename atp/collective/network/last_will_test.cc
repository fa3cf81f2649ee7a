#include "atp/collective/network/last_will.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "atp/wire/join.h"

namespace atp {
namespace {

namespace fs = std::filesystem;

const Endpoint kServer = Endpoint::ipv4(10, 0, 0, 9, 5500);

WorkerConfig config_of_rank_2() {
  WorkerConfig config;
  config.job = {7, 8};
  config.rank = 2;
  config.world_size = 4;
  config.nonce = 0x1234;
  config.first_stream = 6;
  config.route.push_back(Endpoint::ipv4(10, 0, 0, 1, 5501));
  config.route.push_back(kServer);
  return config;
}

class LastWillTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/wills-XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    setenv("ATP_WILLS", folder_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("ATP_WILLS");
    fs::remove_all(folder_);
  }
  std::vector<Will> wills() const {
    std::vector<Will> found;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      std::ifstream file(entry.path());
      std::string line;
      std::getline(file, line);
      found.push_back(parse_will(line + "\n").value_or(Will{}));
    }
    return found;
  }

  std::string folder_;
};

TEST_F(LastWillTest, IsTheLeaveThatTheRankWouldSendToTheServer) {
  const LastWill will(config_of_rank_2(), 4711);
  ASSERT_EQ(wills().size(), 1u);
  const Will read = wills().front();
  EXPECT_EQ(read.port, 4711);
  EXPECT_EQ(read.server, kServer);
  const ParsedPacket packet = parse_packet(read.leave);
  ASSERT_TRUE(packet.ok());
  EXPECT_EQ(packet.view().type(), PacketType::kLeave);
  EXPECT_TRUE(packet.view().has(ATP_FLAG_DIRECT));
  EXPECT_EQ(packet.view().job(), (JobKey{7, 8}));
  EXPECT_EQ(packet.view().header.stream, 6);
  EXPECT_EQ(packet.view().ranks, RankSet::of(2));
  EXPECT_EQ(Leave::read(packet.view().body)->nonce, 0x1234u);
}

TEST_F(LastWillTest, HasTheKeyOfItsJobAloneWhateverTheRankHas) {
  Tenant tenant{.name = "vision"};
  tenant.key.fill(3);
  const JobKeys own = keys_of_jobs(tenant, std::array{7U});
  const struct {
    const char* what;
    std::optional<RankKey> key;
    std::optional<JobKeys> expected;
  } cases[] = {
      {"no key", std::nullopt, std::nullopt},
      {"the tenant's", RankKey(tenant), own},
      {"those of two jobs", RankKey(keys_of_jobs(tenant, std::array{7U, 9U})), own},
      {"that of another job", RankKey(keys_of_jobs(tenant, std::array{9U})), std::nullopt},
  };
  for (const auto& c : cases) {
    const LastWill will(config_of_rank_2(), 4711, c.key);
    ASSERT_EQ(wills().size(), 1u) << c.what;
    EXPECT_EQ(wills().front().port, 4711) << c.what;
    EXPECT_EQ(wills().front().keys, c.expected) << c.what;
  }
}

TEST_F(LastWillTest, IsGoneWhenTheRankHasLeftByItself) {
  {
    const LastWill will(config_of_rank_2(), 4711);
  }
  EXPECT_TRUE(wills().empty());
}

TEST_F(LastWillTest, IsNotWrittenWithoutASupervisor) {
  unsetenv("ATP_WILLS");
  const LastWill will(config_of_rank_2(), 4711);
  EXPECT_TRUE(wills().empty());
}

TEST(Will, RejectsMalformedText) {
  Will will{4711, kServer, {1, 2, 255}, {}};
  EXPECT_EQ(parse_will(text_of(will)), will);
  will.keys = JobKeys{1, {{7, {1, 2, 3}}}};
  EXPECT_EQ(parse_will(text_of(will)), will);
  for (const char* text :
       {"", "\n", "1 2 3\n", "4711 10.0.0.9:5500 0102", "4711 10.0.0.9:5500 012\n",
        "4711 10.0.0.9:5500 xy\n", "4711 10.0.0.9:5500 01 \n", "4711 10.0.0.9:5500 01 1ef8be0d\n",
        "70000 10.0.0.9:5500 01\n"}) {
    EXPECT_EQ(parse_will(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace atp
