#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <optional>

#include "atp/collective/ring/operation_header.h"
#include "atp/collective/ring/schedule.h"

// One stage's parts of the two streams of a rank, and the progress of each. The header precedes the
// first stage of an operation. Sockets are non-blocking.

namespace atp {

// The result of a system call on a connection.
struct Moved {
  enum class End : std::uint8_t { kMore, kBlocked, kClosed, kBroken };
  End end = End::kMore;
  int error = 0;          // errno, if broken
  std::size_t bytes = 0;  // moved
};

class OutStream {
 public:
  OutStream(const std::optional<OperationHeader>& header, const Schedule& schedule);

  // Whether there are bytes to send when `received` bytes of the stage have come in and been added.
  bool can_send(std::size_t received) const { return sent_ < ready(received); }
  bool done() const { return sent_ == header_bytes() + bytes_; }
  std::size_t header_left() const { return sent_ < header_bytes() ? header_bytes() - sent_ : 0; }
  // One system call, for at most `most` bytes.
  Moved send(int fd, std::size_t received, std::size_t most);

 private:
  std::size_t header_bytes() const { return header_ ? sizeof *header_ : 0; }
  std::size_t ready(std::size_t received) const;
  ConstBytes segment(std::size_t index) const;
  std::size_t gather(std::size_t limit, std::span<iovec> parts) const;
  void advance(std::size_t bytes);

  const std::optional<OperationHeader> header_;
  const Schedule& schedule_;
  const std::size_t bytes_;
  std::size_t sent_ = 0;     // including the header
  std::size_t segment_ = 0;  // 0: the header, 1: the first block, 2: the first incoming block
  std::size_t offset_ = 0;   // in the segment
};

class InStream {
 public:
  InStream(const std::optional<OperationHeader>& expected, const Schedule& schedule);

  std::size_t received() const { return received_; }
  bool begun() const { return !expected_ || header_bytes_ == sizeof found_; }
  bool done() const { return begun() && !mismatch() && received_ == bytes_; }
  // Whether the rank before has called something else; nothing of it was taken.
  bool mismatch() const { return expected_ && begun() && !(found_ == *expected_); }
  const OperationHeader& found() const { return found_; }

  // One system call. `stage` is memory to receive into, aligned to the element; between calls it
  // may be used for other streams.
  Moved receive(int fd, Bytes stage);

 private:
  Moved receive_header(int fd, Bytes stage);
  Moved receive_staged(int fd, Bytes stage);
  Moved receive_in_place(int fd);
  void take(ConstBytes bytes);
  void skip_empty_steps();
  const Schedule::Step& step() const { return schedule_.steps[step_]; }

  const std::optional<OperationHeader> expected_;
  const Schedule& schedule_;
  const std::size_t bytes_;
  OperationHeader found_;
  std::size_t header_bytes_ = 0;
  std::size_t received_ = 0;  // added and ready to go out
  std::size_t step_ = 0;
  std::size_t offset_ = 0;  // in the step
  std::byte carry_[8];      // the first bytes of an incomplete element
  std::size_t carried_ = 0;
};

}  // namespace atp
