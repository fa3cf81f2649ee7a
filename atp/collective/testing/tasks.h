#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "atp/base/random.h"
#include "atp/collective/base/number_text.h"
#include "atp/collective/communicator.h"
#include "atp/collective/testing/tensors.h"
#include "atp/wire/element.h"

// For tests that compare paths: operations of every type and reduction, with every kind of value.

namespace atp::testing {

// A rank's values: magnitudes far apart, both zeros, denormals, and, if asked for, NaN and ±Inf.
inline std::vector<std::byte> values_for(DataType type, std::size_t rank, std::size_t count,
                                         bool with_specials) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  Random random(1000 * rank + count + 1);
  std::vector<std::byte> bytes(count * bytes_of(type));
  for (std::size_t i = 0; i < count; ++i) {
    if (type == DataType::kInt32) {
      const auto value = static_cast<std::int32_t>(random.below(1ULL << 32));
      std::memcpy(bytes.data() + 4 * i, &value, 4);
      continue;
    }
    const int exponent = static_cast<int>(i / 300 % 20) * 12 - 140 + static_cast<int>(i % 7);
    float value = std::ldexp(static_cast<float>(2 * random.uniform() - 1), exponent);
    if (type == DataType::kFloat16) value = std::ldexp(value, -exponent);
    if (i % 11 == 3) value = i % 2 == 0 ? 0.0F : -0.0F;
    if (i / 256 % 9 == 2) value = -0.0F;
    if (with_specials && i % 700 == 5 + rank) value = rank % 2 == 0 ? kInfinity : -kInfinity;
    if (with_specials && i % 1900 == 50) value = rank == 0 ? kNan : kInfinity;
    element::with_float(
        type, [&](auto of) { decltype(of)::store(bytes.data() + bytes_of(type) * i, value); });
  }
  return bytes;
}

struct Task {
  DataType type = DataType::kFloat32;
  std::size_t count = 0;
  bool with_specials = false;
  CollectiveRequest options;
};

inline std::string text_of(const Task& task) {
  return std::string(to_string(task.options.reduction)) + " of " + std::to_string(task.count) +
         " " + name_of(task.type) + (task.with_specials ? " with NaN and infinities" : "") +
         (task.options.segments.empty() ? "" : " in segments");
}

// The thread sanitizer takes minutes for what takes seconds otherwise.
#if defined(__SANITIZE_THREAD__)
inline constexpr std::size_t kLongest = 60'001;
#else
inline constexpr std::size_t kLongest = 300'001;
#endif

// Every type and reduction that the format supports, in lengths of one piece and of several.
inline std::vector<Task> tasks_of(NumberFormat format, std::size_t ranks) {
  std::vector<Task> tasks;
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{100},
                                  std::size_t{3000}, std::size_t{40'000}, kLongest}) {
    for (const auto type :
         {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16, DataType::kInt32}) {
      for (const auto reduction :
           {Reduction::kSum, Reduction::kAverage, Reduction::kMax, Reduction::kMin}) {
        if (!check_kind({type, reduction}, format, {}, ranks).ok()) continue;
        for (const bool specials : {false, true}) {
          Task task{type, count, specials, {.reduction = element_reduction_of(reduction)}};
          tasks.push_back(task);
          if (count < 3000) continue;
          task.options.segments = {7, 1000, 0, count - 1007};
          tasks.push_back(task);
        }
      }
    }
  }
  return tasks;
}

inline std::vector<std::byte> result_of(Communicator& communicator, std::size_t rank,
                                        const Task& task) {
  std::vector<std::byte> bytes = values_for(task.type, rank, task.count, task.with_specials);
  EXPECT_EQ(message(communicator.all_reduce(bytes, kind_of(task.type), task.options).wait()), "")
      << text_of(task);
  return bytes;
}

}  // namespace atp::testing
