#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "atp/collective/ring/engine.h"
#include "atp/collective/testing/no_memory.h"
#include "atp/collective/testing/ring.h"

namespace atp::testing {
namespace {

TEST(RingEngine, EndsAnOperationOnceIfThereIsNoMemoryForIt) {
  std::vector<float> values(100, 1);
  int failures = 0;
  for (bool fails = true; fails; failures += fails) {
    std::array<std::optional<Links>, 2> links;
    const TestingRing ring(2);
    std::thread other([&] { links[1] = ring.links(1); });
    links[0] = ring.links(0);
    other.join();
    RingOptions options;
    options.world_size = 2;
    RingEngine engine(options, *std::move(links[0]));
    const auto request = all_reduce_request(ElementType::kFloat32, bytes_of_vector(values), 2);
    const auto operation = std::make_shared<RingOperation>(request, 0);
    fails = lacks_memory(engine, operation, failures);
  }
  EXPECT_GT(failures, 1);
}

}  // namespace
}  // namespace atp::testing
