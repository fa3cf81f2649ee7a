#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "atp/wire/number_format.h"

namespace atp {

// What a host's leader, the first of its ranks, has to the leaders of the job's other hosts. All of
// them combine the same words in the same order.
class HostUplink {
 public:
  struct Words {
    std::int32_t* at = nullptr;
    std::size_t count = 0;
    Reduction reduction = Reduction::kSum;  // or kMax
    std::uint32_t tag = 0;                  // of the operation: the others are told of another one
    std::chrono::milliseconds timeout{0};   // without progress
  };

  virtual ~HostUplink() = default;

  // Replaces the words by those of all hosts, combined. `ended` is called once, by any thread, also
  // within this call; what it says is whether that is done, or else failure() why not.
  virtual void combine(const Words& words, std::function<void(bool)> ended) = 0;
  // Why nothing more is combined.
  virtual std::optional<std::string> failure() const = 0;
  // Tells the others, and does not wait.
  virtual void give_up(const std::string& why) = 0;
};

}  // namespace atp
