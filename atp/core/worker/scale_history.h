#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "atp/core/worker/worker_api.h"

// The automatic scale (docs/protocol.md §5, *Scale*; paper §B.3). Operations of one kind (length,
// reduction and tag) use a power of two that the results of those before it decide. All workers see
// the same results in the same order, so they agree without a word; the next of a kind therefore
// waits until the one before it has completed.

namespace atp {

class ScaleHistory {
 public:
  // Where an operation stands among those of its kind.
  struct Ticket {
    std::uint32_t kind = 0;
    std::uint64_t number = 0;
    bool operator==(const Ticket&) const = default;
  };

  // Beyond this many kinds some share a history, the same ones at every worker.
  static constexpr std::size_t kKindsMax = 1024;

  ScaleHistory() = default;
  explicit ScaleHistory(double first_scale) : first_scale_(first_scale), kinds_(kKindsMax) {}

  // Takes an operation in, in the order of submission.
  Ticket submit(const OperationSpec& spec);
  // Nothing while the one before it is on its way.
  std::optional<double> scale_of(const Ticket& ticket) const;
  // `magnitude`: the largest of the operation's fragments, in units of its scale.
  void complete(const Ticket& ticket, double magnitude);

  bool operator==(const ScaleHistory&) const = default;

 private:
  struct Kind {
    bool used = false;
    bool measured = false;   // a result that was not all zero has been seen
    std::uint8_t quiet = 0;  // results in a row that left room for a larger scale
    Reduction reduction = Reduction::kSum;
    std::uint32_t tag = 0;
    std::uint64_t count = 0;
    std::uint64_t submitted = 0;
    std::uint64_t completed = 0;
    double scale = 0;

    bool is(const OperationSpec& spec) const {
      return count == spec.count && reduction == spec.reduction && tag == spec.tag;
    }
    void learn(double magnitude);
    bool operator==(const Kind&) const = default;
  };

  std::uint32_t kind_of(const OperationSpec& spec);

  double first_scale_ = 0;
  std::vector<Kind> kinds_;  // open addressing, never deleted from
};

}  // namespace atp
