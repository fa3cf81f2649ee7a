#include "atp/collective/operation_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace atp {
namespace {

std::shared_ptr<PendingOperation> operation(std::uint64_t number, std::span<float> data = {}) {
  return std::make_shared<PendingOperation>(OperationName{number, data.size()}, data,
                                            AllReduceOptions{});
}

TEST(OperationTable, ShowsTheWorkerTheTensorOfEachOperation) {
  std::vector<float> first(3);
  std::vector<float> second(5);
  OperationTable table;
  table.insert(0, operation(0, first));
  table.insert(1, operation(1, second));
  EXPECT_EQ(table.input(0).data(), first.data());
  EXPECT_EQ(table.output(1).data(), second.data());
  EXPECT_EQ(table.output(1).size(), 5U);
}

TEST(OperationTable, ForgetsOperationsInAnyOrder) {
  OperationTable table;
  for (OperationId id = 0; id < 4; ++id) table.insert(id, operation(id));
  EXPECT_EQ(table.take(2)->name().number, 2U);
  EXPECT_EQ(table.take(2), nullptr);
  EXPECT_EQ(table.take(0)->name().number, 0U);
  EXPECT_EQ(table.take(7), nullptr);
  EXPECT_EQ(table.take(kNoOperation), nullptr);
  EXPECT_EQ(table.size(), 2U);
  EXPECT_EQ(table.take_oldest()->name().number, 1U);
  EXPECT_EQ(table.take_oldest()->name().number, 3U);
  EXPECT_EQ(table.take_oldest(), nullptr);
  EXPECT_TRUE(table.empty());
  table.insert(4, operation(4));
  EXPECT_EQ(table.take(4)->name().number, 4U);
}

TEST(PendingOperation, TellsTheCallbackBeforeThoseWhoWait) {
  std::atomic<bool> called{false};
  AllReduceOptions options;
  options.on_done = [&](const Status& status) {
    EXPECT_FALSE(status.ok());
    called = true;
  };
  PendingOperation pending({3, 0}, {}, options);
  EXPECT_FALSE(pending.done());
  std::thread waiting([&] {
    EXPECT_EQ(pending.wait().error().message, "broken");
    EXPECT_TRUE(called);
  });
  pending.finish(Error{"broken"});
  waiting.join();
  EXPECT_TRUE(pending.done());
  EXPECT_EQ(pending.wait().error().message, "broken");
}

TEST(PendingOperation, ReleasesWhatItsCallbackHeld) {
  const auto held = std::make_shared<int>(1);
  AllReduceOptions options;
  options.on_done = [copy = held](const Status&) {};
  PendingOperation pending({}, {}, std::move(options));
  EXPECT_EQ(held.use_count(), 2);
  pending.finish(ok_status());
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace atp
