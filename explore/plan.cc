#include "explore/plan.h"

#include <algorithm>
#include <cstring>

namespace atp::explore {
namespace {

// Values that differ for every rank, operation and place, so that no wrong sum is right by chance;
// and multiples of a half, so that float32 holds every sum of them exactly.
double input_of(const JobPlan& job, Rank rank, OperationId operation, std::uint64_t place) {
  const double small = 1 + rank + 4.0 * static_cast<double>(place + 8 * operation);
  if (job.type == DataType::kInt32) return 100 * small;
  // With the scale of 1e8 each fits an int32, but the sum of two does not.
  const bool is_large = job.inputs == Inputs::kOverflowing && operation == 0 && place == 0;
  return is_large ? 15 + 0.5 * rank : 0.5 * (1 + rank) + 2.0 * static_cast<double>(place);
}

void append(std::vector<std::byte>& tensor, DataType type, double value) {
  std::uint32_t bits = 0;
  if (type == DataType::kInt32) {
    bits = static_cast<std::uint32_t>(static_cast<std::int32_t>(value));
  } else {
    const auto narrow = static_cast<float>(value);
    std::memcpy(&bits, &narrow, sizeof bits);
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(&bits);
  tensor.insert(tensor.end(), bytes, bytes + sizeof bits);
}

}  // namespace

JobData::JobData(const JobPlan& plan) : plan_(plan), inputs_(plan.world_size()) {
  for (OperationId id = 0; id < plan_.operations.size(); ++id) {
    std::vector<double> sums(plan_.operations[id]);
    for (Rank rank = 0; rank < plan_.world_size(); ++rank) {
      std::vector<std::byte>& input = inputs_[rank].emplace_back();
      for (std::uint64_t place = 0; place < sums.size(); ++place) {
        const double value = input_of(plan_, rank, id, place);
        append(input, plan_.type, value);
        sums[place] += value;
      }
    }
    std::vector<std::byte>& sum = expected_.emplace_back();
    for (const double value : sums) append(sum, plan_.type, value);
    layouts_.emplace_back(sums.size());
  }
}

OperationSpec JobData::spec(OperationId id) const {
  OperationSpec spec;
  spec.count = plan_.operations[id];
  spec.type = plan_.type;
  spec.format = plan_.format;
  return spec;
}

}  // namespace atp::explore
