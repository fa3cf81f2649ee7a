#pragma once

#include <cstddef>

#include "atp/base/result.h"

// Whether the processes of a segment's ranks are alive: each holds a lock on a byte of its own of
// the segment's file, which the kernel gives back when the process ends, however it ends. Nobody
// waits for such a lock; the others only look.

namespace atp {

class Presence {
 public:
  // Of `rank`, from now on, at the segment with this descriptor.
  static Result<Presence> of(int segment, std::size_t rank);
  ~Presence();
  Presence(Presence&& other) noexcept;
  Presence& operator=(Presence&&) = delete;

  bool is_there(std::size_t rank) const;
  int descriptor() const { return descriptor_; }

 private:
  explicit Presence(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

}  // namespace atp
