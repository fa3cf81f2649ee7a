#include "atp/collective/group.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "atp/collective/testing/cluster.h"

// Every collective of a C++ program, whichever transport carries it: the same results from a job in
// the network, whose ranks have TCP connections besides, and from one in its host's memory.

namespace atp::testing {
namespace {

constexpr std::size_t kRanks = 3;
using Values = std::vector<std::int32_t>;

struct Place {
  const char* name;
  bool in_memory;
};

class EveryTransport : public ::testing::TestWithParam<Place> {
 protected:
  template <class Body>
  void run(const Body& body) const {
    const TestingCluster cluster(kRanks);
    in_parallel(kRanks, [&](std::size_t rank) {
      CommunicatorOptions options = cluster.options(rank);
      options.host_memory = GetParam().in_memory;
      if (options.host_memory) options.route.clear();
      auto joined = Group::connect(options);
      ASSERT_TRUE(joined.ok()) << joined.error().message;
      Group& group = *joined.value();
      body(group);
      EXPECT_EQ(group.shutdown().ok(), !group.failure().has_value());
      static_cast<void>(group.shutdown());  // a second one does nothing
      group.abort("after the end");
    });
  }
};

Bytes writable(Values& values) { return std::as_writable_bytes(std::span(values)); }
ConstBytes readable(const Values& values) { return std::as_bytes(std::span(values)); }

template <class Blocks, class Of>
std::vector<Blocks> cut(Values& values, const Of& of) {
  std::vector<Blocks> blocks;
  for (std::size_t b = 0; b < kRanks; ++b) {
    blocks.push_back(of(values).subspan(b * 2 * sizeof(int), 2 * sizeof(int)));
  }
  return blocks;
}
std::vector<Bytes> out(Values& values) { return cut<Bytes>(values, writable); }
std::vector<ConstBytes> in(Values& values) { return cut<ConstBytes>(values, readable); }

CollectiveRequest of(Collective call, ElementReduction reduction = ElementReduction::kNone) {
  return {.call = call, .kind = ElementKind::kInt32, .reduction = reduction};
}

// Six values, of which the first is the rank's number.
Values from(std::size_t rank) {
  Values values(2 * kRanks);
  std::iota(values.begin(), values.end(), static_cast<std::int32_t>(rank));
  return values;
}

TEST_P(EveryTransport, CarriesEveryCollective) {
  run([](Group& group) {
    const std::size_t rank = group.rank();
    const auto done = [](Handle handle) { EXPECT_EQ(message(handle.wait()), ""); };

    Values sum = from(rank);
    CollectiveRequest request = of(Collective::kAllReduce, ElementReduction::kSum);
    request.outputs = {writable(sum)};
    done(group.submit(request));
    EXPECT_EQ(sum, (Values{3, 6, 9, 12, 15, 18}));

    Values product = from(rank);  // which no switch computes
    request = of(Collective::kAllReduce, ElementReduction::kProduct);
    request.outputs = {writable(product)};
    done(group.submit(request));
    EXPECT_EQ(product, (Values{0, 6, 24, 60, 120, 210}));

    std::vector<float> floats(5000, static_cast<float>(rank) + 0.5F);
    done(group.all_reduce(floats));
    EXPECT_EQ(floats, std::vector<float>(5000, 4.5F));

    Values told = from(rank);
    done(group.broadcast(writable(told), 1));
    EXPECT_EQ(told, from(1));

    Values own = from(rank);
    Values root_sum(own.size());
    request = of(Collective::kReduce, ElementReduction::kMax);
    request.root = 2;
    request.inputs = {readable(own)};
    if (rank == 2) request.outputs = {writable(root_sum)};
    done(group.submit(request));
    EXPECT_EQ(root_sum, rank == 2 ? from(2) : Values(own.size()));

    Values share(2);
    request = of(Collective::kReduceScatter, ElementReduction::kSum);
    request.inputs = in(own);
    request.outputs = {writable(share)};
    done(group.submit(request));
    const auto first = static_cast<std::int32_t>(3 + 6 * rank);
    EXPECT_EQ(share, (Values{first, first + 3}));

    Values block(2, static_cast<std::int32_t>(rank));
    Values all(2 * kRanks);
    request = of(Collective::kAllGather);
    request.inputs = {readable(block)};
    request.outputs = out(all);
    done(group.submit(request));
    EXPECT_EQ(all, (Values{0, 0, 1, 1, 2, 2}));

    Values theirs(2 * kRanks);
    request = of(Collective::kAllToAll);
    request.inputs = in(own);
    request.outputs = out(theirs);
    done(group.submit(request));
    for (std::size_t r = 0; r < kRanks; ++r) {
      EXPECT_EQ(theirs[2 * r], static_cast<std::int32_t>(r + 2 * rank));
    }

    Values gathered(2 * kRanks);
    request = of(Collective::kGather);
    request.inputs = {readable(block)};
    if (rank == 0) request.outputs = out(gathered);
    done(group.submit(request));
    EXPECT_EQ(gathered, rank == 0 ? Values({0, 0, 1, 1, 2, 2}) : Values(2 * kRanks));

    Values given(2);
    request = of(Collective::kScatter);
    if (rank == 0) request.inputs = in(gathered);
    request.outputs = {writable(given)};
    done(group.submit(request));
    EXPECT_EQ(given, block);

    done(group.barrier());
  });
}

TEST_P(EveryTransport, CarriesTransfersBetweenTwoRanks) {
  run([](Group& group) {
    Values values = from(group.rank());
    CollectiveRequest request = of(group.rank() == 2 ? Collective::kSend : Collective::kReceive);
    if (group.rank() == 1) return;
    request.root = group.rank() == 2 ? 0 : kAnyRank;
    request.tag = 7;
    if (group.rank() == 2) request.inputs = {readable(values)};
    if (group.rank() == 0) request.outputs = {writable(values)};
    Handle handle = group.submit(request);
    EXPECT_EQ(message(handle.wait()), "");
    EXPECT_EQ(values, from(2));
    EXPECT_EQ(handle.source(), group.rank() == 0 ? 2U : kAnyRank);
  });
}

TEST_P(EveryTransport, FailsOnAllTransportsOnceOneHas) {
  run([](Group& group) {
    EXPECT_EQ(message(group.barrier().wait()), "");
    if (group.rank() == 1) group.abort("planted");
    EXPECT_NE(message(group.barrier().wait()), "");
    Values values = from(0);
    CollectiveRequest request = of(Collective::kAllReduce, ElementReduction::kSum);
    request.outputs = {writable(values)};
    EXPECT_NE(message(group.submit(request).wait()), "");
    EXPECT_TRUE(group.failure().has_value());
  });
}

INSTANTIATE_TEST_SUITE_P(Group, EveryTransport,
                         ::testing::Values(Place{"network", false}, Place{"memory", true}),
                         [](const auto& place) { return std::string(place.param.name); });

}  // namespace
}  // namespace atp::testing
