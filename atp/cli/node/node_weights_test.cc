#include "atp/cli/node/node_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "atp/cli/command/command.h"

namespace atp {
namespace {

using testing::HasSubstr;

class NodeWeightsTest : public testing::Test {
 protected:
  ~NodeWeightsTest() override { std::filesystem::remove(path_); }
  void write(const std::string& text) const { std::ofstream(path_) << text; }

  const std::string path_ = testing::TempDir() + "weights-" + std::to_string(getpid()) + ".yaml";
  const Keyring keys_{Keyring::Side::kNode,
                      {{.name = "vision", .quota = {.jobs = 8, .weight = 3}}, {.name = "speech"}}};
};

TEST_F(NodeWeightsTest, WithoutAFileThereAreNone) {
  EXPECT_EQ(NodeWeights::open("", nullptr), nullptr);
}

TEST_F(NodeWeightsTest, AFileMayHaveWeightsAlone) {
  write("jobs: [{job: 7, weight: 4}]\n");
  const auto weights = NodeWeights::open(path_, nullptr);
  EXPECT_EQ(weights->weight_of({7, 1, 0}), 4u);
  EXPECT_EQ(weights->weight_of({7, 2, 0}), 4u) << "whatever its incarnation";
  EXPECT_EQ(weights->weight_of({8, 1, 0}), 1u);
}

TEST_F(NodeWeightsTest, WithKeysAJobsOwnWeightGoesBeforeItsTenants) {
  write(
      "jobs:\n  - {job: 7, weight: 4}\n  - {job: 8, weight: 2, tenant: vision}\n"
      "  - {job: 9, weight: 5, tenant: speech}\n");
  const auto weights = NodeWeights::open(path_, &keys_);
  struct Row {
    const char* name;
    JobKey job;
    std::uint32_t weight;
  };
  constexpr std::uint16_t kVision = 1, kSpeech = 2;
  const Row rows[] = {
      {"a job of a tenant that has a weight", {8, 1, kVision}, 2},
      {"another job of this tenant", {9, 1, kVision}, 3},
      {"a job of a tenant without one", {9, 1, kSpeech}, 5},
      {"another tenant's job of the same number", {8, 1, kSpeech}, 1},
      {"an entry without a tenant, and whoever chooses its number", {7, 1, kSpeech}, 1},
  };
  for (const Row& row : rows) EXPECT_EQ(weights->weight_of(row.job), row.weight) << row.name;
  EXPECT_EQ(weights->of_tenant(kVision).jobs, 8u);
}

TEST_F(NodeWeightsTest, AreReadAgain) {
  write("jobs: [{job: 7, weight: 4}]\n");
  const auto weights = NodeWeights::open(path_, nullptr);
  write("jobs: [{job: 7, weight: 5}]\n");
  EXPECT_EQ(weights->weight_of({7, 1, 0}), 4u);
  weights->reload();
  EXPECT_EQ(weights->weight_of({7, 1, 0}), 5u);
  for (const char* wrong : {"jobs: [{job: 7, weight: 0}]\n", "jobs: [", "job: []\n"}) {
    write(wrong);
    weights->reload();
    EXPECT_EQ(weights->weight_of({7, 1, 0}), 5u) << wrong;
  }
  std::filesystem::remove(path_);
  weights->reload();
  EXPECT_EQ(weights->weight_of({7, 1, 0}), 5u) << "no file";
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  weights->reload();  // does not wait for a writer
  EXPECT_EQ(weights->weight_of({7, 1, 0}), 5u) << "a pipe";
  std::filesystem::remove(path_);
  write("jobs: []\n");
  weights->reload();
  EXPECT_EQ(weights->weight_of({7, 1, 0}), 1u);
}

TEST_F(NodeWeightsTest, AnErrorInTheFileEndsTheStart) {
  write("jobs: [{job: 7, weight: 0}]\n");
  EXPECT_THAT([&] { NodeWeights::open(path_, nullptr); },
              testing::ThrowsMessage<CommandError>(
                  HasSubstr("--weights: " + path_ + ":1: jobs[0].weight: found \"0\"")));
}

TEST_F(NodeWeightsTest, AnEntryThatHoldsForNoJobIsExplained) {
  JobWeight entry;
  EXPECT_EQ(why_idle(entry, nullptr), "");
  EXPECT_THAT(why_idle(entry, &keys_), HasSubstr("add tenant: NAME"));
  entry.tenant = "vision";
  EXPECT_EQ(why_idle(entry, &keys_), "");
  EXPECT_THAT(why_idle(entry, nullptr), HasSubstr("this switch has no --keys"));
  entry.tenant = "visoin";
  EXPECT_THAT(why_idle(entry, &keys_), HasSubstr("did you mean vision?"));
}

}  // namespace
}  // namespace atp
