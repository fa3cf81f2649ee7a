#include "atp/collective/network/operation_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace atp {
namespace {

std::shared_ptr<PendingOperation> operation(std::uint64_t number, std::span<float> data = {}) {
  CollectiveRequest request{.kind = ElementKind::kFloat32,
                            .outputs = {std::as_writable_bytes(data)}};
  return std::make_shared<PendingOperation>(OperationName{number, data.size()}, std::move(request),
                                            BlockLayout(data.size()), NumberFormat::kBlocks);
}

PendingOperation empty_operation(const OperationName& name, CollectiveRequest request,
                                 PendingOperation::Judge judge = nullptr) {
  return {name, std::move(request), {}, NumberFormat::kBlocks, std::move(judge)};
}

TEST(OperationTable, GivesTheWorkerTheTensorOfEachOperation) {
  std::vector<float> first(3);
  std::vector<float> second(5);
  OperationTable table;
  table.insert(0, operation(0, first));
  table.insert(1, operation(1, second));
  EXPECT_EQ(static_cast<const void*>(table.input(0).data()), first.data());
  EXPECT_EQ(static_cast<void*>(table.output(1).data()), second.data());
  EXPECT_EQ(table.output(1).size(), 20U) << "bytes";
}

TEST(OperationTable, KeepsAnExponentForEachBlockUntilTheOperationEnds) {
  std::vector<float> tensor(1000);
  OperationTable table;
  table.insert(0, operation(0, tensor));
  table.insert(1, operation(1, tensor));
  EXPECT_EQ(table.layout(0).blocks(), 4U);
  ASSERT_EQ(table.exponents(0).size(), 4U);
  table.exponents(0)[3] = 7;
  table.exponents(1)[3] = 8;
  EXPECT_EQ(table.exponents(0)[3], 7);
  table.take(0);
  EXPECT_EQ(table.exponents(1)[3], 8);
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
  CollectiveRequest request;
  request.on_done = [&](const Status& status) {
    EXPECT_FALSE(status.ok());
    called = true;
  };
  PendingOperation pending = empty_operation({3, 0}, request);
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

TEST(PendingOperation, ReleasesTheCapturesOfItsCallback) {
  const auto held = std::make_shared<int>(1);
  CollectiveRequest request;
  request.on_done = [copy = held](const Status&) {};
  PendingOperation pending = empty_operation({}, std::move(request));
  EXPECT_EQ(held.use_count(), 2);
  pending.finish(ok_status());
  EXPECT_EQ(held.use_count(), 1);
}

TEST(PendingOperation, LetsItsJudgeChangeTheResult) {
  CollectiveRequest request;
  std::string told;
  request.on_done = [&](const Status& status) { told = status.error().message; };
  PendingOperation pending =
      empty_operation({}, request, [](const Status&) { return Status(Error{"not that"}); });
  pending.finish(ok_status());
  EXPECT_EQ(told, "not that");
  EXPECT_EQ(pending.wait().error().message, "not that");
}

TEST(PendingOperation, DescribesTheOperationToTheWorker) {
  std::vector<std::uint16_t> values(600);
  const std::size_t lengths[] = {100, 500};
  const PendingOperation pending({0, 600},
                                 {.kind = ElementKind::kBFloat16,
                                  .reduction = ElementReduction::kAverage,
                                  .tag = 9,
                                  .outputs = {std::as_writable_bytes(std::span(values))}},
                                 BlockLayout(lengths), NumberFormat::kBlocksInt16);
  const OperationSpec spec = pending.spec(4, {});
  EXPECT_EQ(spec.count, 600U);
  EXPECT_EQ(spec.type, DataType::kBFloat16);
  EXPECT_EQ(spec.reduction, Reduction::kAverage);
  EXPECT_EQ(spec.format, NumberFormat::kBlocksInt16);
  EXPECT_EQ(spec.blocks, 3U);
  EXPECT_EQ(spec.layout, BlockLayout(lengths).fingerprint());
  EXPECT_EQ(spec.tag, 9U);
  EXPECT_TRUE(spec.small) << "with 4 ranks, up to 1,024 values are small";
  EXPECT_FALSE(pending.spec(8, {}).small);
  EXPECT_EQ(pending.kind_text(8), "the average of 600 bfloat16 values in blocks of int16");
  EXPECT_EQ(pending.kind_text(4), "the exact average of 600 bfloat16 values");
}

}  // namespace
}  // namespace atp
