#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "atp/base/result.h"
#include "atp/collective/host/closed_in_child.h"

// Whether the processes of a segment's ranks are alive: each holds a lock on a byte of its own of
// the segment's file, which the kernel gives back when the process ends, however it ends. Nobody
// waits for such a lock; the others only look. A forked child, of whatever moment, does not hold
// it.

namespace atp {

class Presence {
 public:
  // Of `rank`, from now on, at the segment with this descriptor.
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
