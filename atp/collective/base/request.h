#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "atp/base/result.h"
#include "atp/collective/base/collective_request.h"
#include "atp/wire/number_format.h"

// A caller's request for an all-reduce, and the counters that it moves: the words in which callers,
// transports and messages speak of operations.

namespace atp {

// The counters (name, value) of one worker, and of its colocated server.
using CounterList = std::vector<std::pair<std::string, std::uint64_t>>;

// A tensor, reduced in place: `count` values of the type, in host byte order, aligned for it.
struct Values {
  std::byte* data = nullptr;
  std::size_t count = 0;
  DataType type = DataType::kFloat32;
};

struct AllReduceOptions {
  Reduction reduction = Reduction::kSum;
  // For a floating-point sum; absent: the communicator's.
  std::optional<NumberFormat> format;
  // The lengths of the tensors, or parameters, that the values consist of, so that no block mixes
  // two of them, where the smaller one's values would be lost. Empty: there is one.
  std::vector<std::size_t> segments;
  std::uint32_t tag = 0;  // identifies the call site: ranks at different ones get an error
  // The user's operation that this one is a part of, for messages.
  std::optional<UserOperation> part_of;
  std::chrono::milliseconds timeout{0};  // from this call to its end; 0: the communicator's
  // False: the time-out ends the operation only if it makes no progress for that long.
  bool timeout_is_total = true;
  // How much of a total time-out the caller has used to prepare the values.
  std::chrono::milliseconds spent{0};
  // The caller will wait for it at once: if that saves time, all_reduce() itself carries it out,
  // with everything started before.
  bool here = false;
  // An internal measurement that all ranks make before the first operation: it has no number, is in
  // no digest, does not wait for its turn, and takes the network.
  bool is_probe = false;
  // Called once when the operation has ended, before wait() returns: on one of the communicator's
  // threads (there is one per lane), or in all_reduce(), if this operation is refused at once or a
  // later one is carried out `here`. Must not block, nor take a lock that others hold around calls.
  // It may call everything except shutdown().
  std::function<void(const Status&)> on_done;
};

}  // namespace atp
