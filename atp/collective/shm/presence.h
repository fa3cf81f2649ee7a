#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "atp/base/result.h"
#include "atp/collective/base/closed_in_child.h"

// Shows whether the processes of a segment's ranks are alive. Each holds a lock on its own byte of
// the segment's file, which the kernel releases when the process ends, however that happens. The
// others only query the lock. A forked child does not hold it.

namespace atp {

class Presence {
 public:
  // Takes the lock of `rank` in the segment with this descriptor.
  static Result<Presence> of(int segment, std::size_t rank);
  ~Presence();
  Presence(Presence&& other) noexcept;
  Presence& operator=(Presence&&) = delete;

  bool is_there(std::size_t rank) const;

 private:
  explicit Presence(std::unique_ptr<ClosedInChild> opened) : opened_(std::move(opened)) {}
  int descriptor() const { return opened_->descriptors().front(); }

  std::unique_ptr<ClosedInChild> opened_;  // null: moved away
};

}  // namespace atp
