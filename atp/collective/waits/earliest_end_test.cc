#include "atp/collective/waits/earliest_end.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace atp {
namespace {

struct Row {
  std::string name;
  std::vector<std::optional<int>> ends;            // of the operations, oldest first
  std::vector<std::optional<int>> earliest_after;  // as many of them have ended as is the index
};

TEST(EarliestEnd, IsThatOfTheOperationsInFlight) {
  const std::optional<int> none;
  const std::vector<Row> rows = {
      {"ends that rise", {1, 2, 3}, {1, 2, 3, none}},
      {"ends that fall", {3, 2, 1}, {1, 1, 1, none}},
      {"a short one in the middle", {5, 1, 9}, {1, 1, 9, none}},
      {"equal ends", {4, 4}, {4, 4, none}},
      {"operations without an end", {none, 7, none}, {7, 7, none, none}},
  };
  for (const Row& row : rows) {
    EarliestEnd<int> earliest;
    for (const auto& end : row.ends) earliest.add(end);
    for (const auto& expected : row.earliest_after) {
      EXPECT_EQ(earliest.get(), expected) << row.name;
      earliest.remove_oldest();
    }
  }
}

struct Counted {
  int at = 0;
  static inline int comparisons = 0;
  bool operator<(const Counted& other) const {
    ++comparisons;
    return at < other.at;
  }
};

TEST(EarliestEnd, CostsTheSamePerOperationHoweverManyAreInFlight) {
  for (const int step : {1, 0, -1}) {
    for (const int operations : {100, 100'000}) {
      Counted::comparisons = 0;
      EarliestEnd<Counted> earliest;
      for (int i = 0; i < operations; ++i) earliest.add(Counted{i * step});
      for (int i = 0; i < operations; ++i) {
        static_cast<void>(earliest.get());
        earliest.remove_oldest();
      }
      EXPECT_LE(Counted::comparisons, 2 * operations) << step;
    }
  }
}

}  // namespace
}  // namespace atp
