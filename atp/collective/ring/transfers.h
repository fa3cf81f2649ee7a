#pragma once

#include <cstddef>
#include <deque>
#include <memory>

#include "atp/collective/ring/ring_operation.h"
#include "atp/collective/ring/streams.h"

// The operations in flight, in the order of their submission. Each stream carries them one after
// the other, but the one that goes out may already be with the next operation while the one that
// comes in is still with this one.

namespace atp {

struct Scratch {
  std::unique_ptr<std::byte[]> memory;
  std::size_t bytes = 0;
};

struct Transfer {
  Transfer(std::shared_ptr<RingOperation> what, std::size_t rank, std::size_t ranks,
           Scratch memory);

  std::shared_ptr<RingOperation> operation;
  Scratch scratch;
  Passage passage;
  OutStream out;
  InStream in;

  const OperationHeader& header() const { return out.header(); }
  bool done() const { return out.done() && in.done(); }
};

class Transfers {
 public:
  Transfers(std::size_t rank, std::size_t ranks) : rank_(rank), ranks_(ranks) {}

  void add(std::shared_ptr<RingOperation> operation);
  bool empty() const { return queue_.empty() && waiting_.empty(); }
  std::size_t size() const { return queue_.size() + waiting_.size(); }

  // Whose bytes go next; null: none's.
  Transfer* sending();
  Transfer* receiving();
  const RingOperation* oldest() const;
  // The oldest one if it is done, taken out.
  std::shared_ptr<RingOperation> take_done();
  // The oldest one, however far it is.
  std::shared_ptr<RingOperation> take_oldest();

 private:
  Transfer* begin_next();
  Scratch take_scratch(std::size_t bytes);
  std::shared_ptr<RingOperation> take_front();

  const std::size_t rank_;
  const std::size_t ranks_;
  std::deque<std::unique_ptr<Transfer>> queue_;  // begun in a stream
  std::deque<std::shared_ptr<RingOperation>> waiting_;
  // Kept from one operation to the next: fresh memory costs as much as sending it.
  Scratch spare_;
};

}  // namespace atp
