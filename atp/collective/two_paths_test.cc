#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "atp/collective/peer/peers_transport.h"
#include "atp/collective/testing/cluster.h"
#include "atp/collective/testing/peers.h"

// A communicator with two paths: all ranks choose the same one for an operation, and the results do
// not depend on the choice.

namespace atp::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kRanks = 3;
constexpr CostModels kRingForLarge{CostModel{1'000, 1'000'000}, CostModel{1'000'000, 1}};
constexpr CostModels kRingForAll{CostModel{1'000'000, 1'000'000}, CostModel{1, 1}};
constexpr CostModels kAlmostEqual{CostModel{1'000, 1'000}, CostModel{1'000, 1'001}};

struct Setting {
  bool has_ring = true;
  CostModels figures = kRingForLarge;
  std::uint64_t judged_every = 0;
  std::uint64_t digest_every = 0;
  bool two_servers = false;
  NumberFormat format = NumberFormat::kBlocks;
};

class BothPaths {
 public:
  explicit BothPaths(const Setting& setting)
      : cluster_(kRanks), second_(kRanks), peers_(kRanks), setting_(setting) {
    std::vector<CommunicatorOptions> options = all_options(cluster_);
    for (auto& o : options) {
      o.digest = true;
      o.digest_every = setting.digest_every;
      o.number_format = setting.format;
      if (setting.two_servers) o.more_routes = {{second_.server().endpoint()}};
    }
    communicators_ = join_all(options);
    if (!setting.has_ring) return;
    in_parallel(kRanks, [&](std::size_t rank) {
      EXPECT_EQ(message(communicators_[rank]->add_ring(peers_transport(peers_.start(rank)),
                                                       setting.figures, setting.judged_every)),
                "");
    });
  }

  Communicator& at(std::size_t rank) { return *communicators_[rank]; }
  const Communicators& all() const { return communicators_; }
  // Call it only while nothing is in flight.
  std::uint64_t fragments_at_second_server() const {
    return second_.server().node().counters()[ServerCounter::kFragmentsCompleted];
  }

 private:
  const TestingCluster cluster_;
  const TestingCluster second_;
  TestingPeers peers_;
  const Setting setting_;
  Communicators communicators_;
};

constexpr std::size_t kLengths[] = {5, 200'000, 900, 30'000, 0, 1, 40'000, 7000};
constexpr std::size_t kRounds = 6;

struct Outcome {
  std::string digest;
  std::vector<std::vector<float>> sums;
  std::optional<TunerCounts> counts;
};

// All ranks sum tensors of these lengths, several at a time, and then combine whole numbers.
Outcome outcome_at(Communicator& communicator, std::size_t rank) {
  Outcome outcome;
  for (std::size_t round = 0; round < kRounds; ++round) {
    std::vector<std::vector<float>> tensors;
    std::vector<std::int32_t> numbers(100, static_cast<std::int32_t>(rank + round));
    std::vector<Handle> handles;
    for (const std::size_t length : kLengths) {
      tensors.push_back(tensor_of(rank, tensors.size(), length));
      for (float& value : tensors.back()) value *= 0.3F;  // not a multiple of any unit
    }
    for (auto& tensor : tensors) {
      CollectiveRequest options;
      if (tensor.size() == 7000) options.segments = {1000, 0, 6000};
      if (tensor.size() == 900) options.reduction = ElementReduction::kAverage;
      handles.push_back(communicator.all_reduce(tensor, options));
    }
    handles.push_back(communicator.all_reduce(std::as_writable_bytes(std::span(numbers)),
                                              ElementKind::kInt32,
                                              {.reduction = ElementReduction::kMax}));
    for (Handle& handle : handles) EXPECT_EQ(message(handle.wait()), "");
    EXPECT_EQ(numbers, std::vector<std::int32_t>(100, static_cast<std::int32_t>(2 + round)));
    for (auto& tensor : tensors) outcome.sums.push_back(std::move(tensor));
  }
  outcome.digest = communicator.digest().value().digest.text();
  outcome.counts = communicator.tuner_counts();
  return outcome;
}

std::vector<Outcome> outcomes_of(const Setting& setting) {
  BothPaths ways(setting);
  std::vector<Outcome> outcomes(kRanks);
  in_parallel(kRanks, [&](std::size_t rank) { outcomes[rank] = outcome_at(ways.at(rank), rank); });
  shut_down(ways.all());
  return outcomes;
}

std::size_t changing_operations() { return kRounds * (std::size(kLengths) + 1); }

// Each exchange of times but the last is judged at the next one.
std::uint64_t judgements_of(std::uint64_t judged_every) {
  ExchangePoints exchanges(judged_every);
  std::uint64_t points = 0;
  for (std::uint64_t sent = 0; sent < changing_operations(); ++sent) {
    if (!exchanges.is_due(sent)) continue;
    exchanges.advance();
    ++points;
  }
  return points == 0 ? 0 : points - 1;
}

struct Case {
  const char* name;
  Setting setting;
  std::uint64_t least_in_network;
  std::uint64_t least_over_ring;
};
const std::vector<Case> kCases = {
    {"small sums take the network, large ones the ring", {}, 3 * kRounds, 5 * kRounds},
    {"all take the ring", {.figures = kRingForAll}, 0, 7 * kRounds},
    {"the paths are compared while sums are in flight", {.judged_every = 4}, 1, 1},
    {"before each operation", {.figures = kAlmostEqual, .judged_every = 1}, 0, 0},
    {"digests are compared as well",
     {.figures = kAlmostEqual, .judged_every = 3, .digest_every = 5},
     0,
     0},
    {"two servers have parts of what takes the network",
     {.judged_every = 5, .two_servers = true},
     1,
     1},
    {"exact sums", {.judged_every = 7, .format = NumberFormat::kExact}, 1, 1},
    {"sums of 16 bits", {.judged_every = 7, .format = NumberFormat::kBlocksInt16}, 1, 1},
};

TEST(TwoPaths, ThePathAffectsNoResultAndIsTheSameAtAllRanks) {
  for (const Case& each : kCases) {
    SCOPED_TRACE(each.name);
    const std::vector<Outcome> found = outcomes_of(each.setting);
    Setting plain = each.setting;
    plain.has_ring = false;
    const std::vector<Outcome> expected = outcomes_of(plain);
    EXPECT_FALSE(expected[0].counts.has_value());
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(found[rank].digest, expected[0].digest);
      EXPECT_EQ(found[rank].sums, expected[0].sums);
      ASSERT_TRUE(found[rank].counts.has_value());
      const TunerCounts& counts = *found[rank].counts;
      EXPECT_EQ(counts.operations, found[0].counts->operations);
      EXPECT_EQ(counts.judgements, found[0].counts->judgements);
      EXPECT_EQ(counts.changes, found[0].counts->changes);
      EXPECT_EQ(counts.ring_from, found[0].counts->ring_from);
      EXPECT_GE(counts.operations[index_of(SumPath::kNetwork)], each.least_in_network);
      EXPECT_GE(counts.operations[index_of(SumPath::kRing)], each.least_over_ring);
      EXPECT_EQ(counts.operations[0] + counts.operations[1], changing_operations());
      EXPECT_EQ(counts.judgements, judgements_of(each.setting.judged_every));
    }
  }
}

TEST(TwoPaths, AProbeIsInNoDigestAndHasNoNumber) {
  BothPaths ways({.figures = kRingForAll, .judged_every = 2});
  in_parallel(kRanks, [&](std::size_t rank) {
    std::vector<float> tensor(5000, 1.0F);
    EXPECT_EQ(message(ways.at(rank).all_reduce(tensor, {.is_probe = true}).wait()), "");
    EXPECT_EQ(tensor, std::vector<float>(5000, kRanks));
    EXPECT_EQ(ways.at(rank).digest()->operations, 0U);
    EXPECT_EQ(ways.at(rank).tuner_counts()->operations, (std::array<std::uint64_t, 2>{0, 0}));
  });
  shut_down(ways.all());
}

// Otherwise it would measure a network that no operation uses.
TEST(TwoPaths, AProbeIsSpreadOverAllServers) {
  BothPaths ways({.has_ring = false, .two_servers = true});
  in_parallel(kRanks, [&](std::size_t rank) {
    std::vector<float> tensor(std::size_t{1} << 18, 1.0F);  // too large for one server
    EXPECT_EQ(message(ways.at(rank).all_reduce(tensor, {.is_probe = true}).wait()), "");
    EXPECT_EQ(tensor, std::vector<float>(tensor.size(), kRanks));
  });
  shut_down(ways.all());
  EXPECT_GT(ways.fragments_at_second_server(), 0U);
}

// A second or late call would make ranks disagree.
TEST(TwoPaths, ARingIsAddedOnceAndBeforeTheFirstOperation) {
  BothPaths ways({});
  BothPaths late({.has_ring = false});
  in_parallel(kRanks, [&](std::size_t rank) {
    EXPECT_THAT(message(ways.at(rank).add_ring(nullptr, kRingForAll, 0)),
                HasSubstr("only once, and only before the first operation"));
    std::vector<float> tensor(5);
    EXPECT_EQ(message(late.at(rank).all_reduce(tensor).wait()), "");
    EXPECT_THAT(message(late.at(rank).add_ring(nullptr, kRingForAll, 0)),
                HasSubstr("only once, and only before the first operation"));
  });
}

TEST(TwoPaths, IfOnePathFailsBothFail) {
  for (const CostModels& figures : {kRingForAll, kRingForLarge}) {
    BothPaths ways({.figures = figures});
    in_parallel(kRanks, [&](std::size_t rank) {
      std::vector<float> tensor(5000, 1.0F);
      ASSERT_EQ(message(ways.at(rank).all_reduce(tensor).wait()), "");
      if (rank == 1) ways.at(rank).abort("planted");
      // An operation need not fail before the other ranks have learned of it.
      std::string failure;
      for (int i = 0; i < 1000 && failure.empty(); ++i) {
        failure = message(ways.at(rank).all_reduce(tensor).wait());
      }
      EXPECT_NE(failure, "");
      std::vector<float> small(1), large(100'000);
      EXPECT_NE(message(ways.at(rank).all_reduce(small).wait()), "");
      EXPECT_NE(message(ways.at(rank).all_reduce(large).wait()), "");
    });
  }
}

}  // namespace
}  // namespace atp::testing
