#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "atp/collective/base/completion.h"
#include "atp/collective/ring/operation_header.h"
#include "atp/collective/ring/stages.h"
#include "atp/collective/ring/streams.h"
#include "atp/driver/tcp/tcp_socket.h"

// The operations in flight, in the order of their submission. Each stream carries them one after
// the other, but the outgoing one may already be at the next operation while the incoming one is
// still at this one.

namespace atp {

// One operation from its submission to its end, shared by the caller's handle and the ring's
// thread.
class RingOperation {
 public:
  RingOperation(RingRequest request, std::uint64_t number)
      : request_(std::move(request)),
        number_(number),
        completion_(std::exchange(request_.on_done, nullptr)) {}

  const RingRequest& request() const { return request_; }  // without the callback
  std::uint64_t number() const { return number_; }
  std::string text() const { return describe(make_header(request_, number_)); }

  // When it fails even if it makes progress; the maximum: never.
  SteadyTime ends_by() const { return ends_by_; }
  void set_end(SteadyTime at) { ends_by_ = at; }

  void finish(Status result) { completion_.finish(std::move(result)); }
  Status wait() { return completion_.wait(); }
  bool wait_or_interrupted(const MaybeInterruption& interruption) {
    return completion_.wait_or_interrupted(interruption);
  }
  bool done() const { return completion_.done(); }

 private:
  RingRequest request_;
  const std::uint64_t number_;
  SteadyTime ends_by_ = SteadyTime::max();
  Completion completion_;
};

struct Scratch {
  std::unique_ptr<std::byte[]> memory;
  std::size_t bytes = 0;
};

// One operation in progress.
class Transfer {
 public:
  Transfer(std::shared_ptr<RingOperation> operation, std::size_t rank, std::size_t ranks,
           Scratch scratch);

  const OperationHeader& header() const { return header_; }
  bool can_send() const;
  std::size_t header_left() const { return sending().out.header_left(); }
  Moved send(int fd, std::size_t most);
  Moved receive(int fd, Bytes stage);

  // For the incoming stream: whether the header has come, and whether it is another operation's.
  bool begun() const { return receiving().in.begun(); }
  bool mismatch() const { return receiving().in.mismatch(); }
  const OperationHeader& found() const { return receiving().in.found(); }

  // Whether all stages have gone out, or come in.
  bool sent() const { return !what_->has_more() && stages_.back().out.done(); }
  bool received() const { return received_; }
  bool done() const { return sent() && received(); }

  const RingOperation& operation() const { return *operation_; }
  // Call it at the end.
  std::shared_ptr<RingOperation> take_operation() { return std::move(operation_); }
  Scratch take_scratch() { return std::move(scratch_); }

 private:
  struct Stage {
    Stage(const std::optional<OperationHeader>& header, Schedule what)
        : schedule(std::move(what)), out(header, schedule), in(header, schedule) {}
    const Schedule schedule;
    OutStream out;
    InStream in;
  };
  void begin_stages();
  const Stage& sending() const { return stages_.front(); }
  const Stage& receiving() const { return stages_.back(); }

  std::shared_ptr<RingOperation> operation_;
  const OperationHeader header_;
  Scratch scratch_;
  std::unique_ptr<Stages> what_;
  // The stages that are not sent yet, and always the last one. They must not move.
  std::deque<Stage> stages_;
  bool received_ = false;
};

class Transfers {
 public:
  Transfers(std::size_t rank, std::size_t ranks) : rank_(rank), ranks_(ranks) {}

  void add(std::shared_ptr<RingOperation> operation);
  bool empty() const { return queue_.empty() && waiting_.empty(); }
  std::size_t size() const { return queue_.size() + waiting_.size(); }

  // The transfer whose bytes go out next, or null.
  Transfer* sending();
  Transfer* receiving();
  const RingOperation* oldest() const;
  // The one that must end first, or null: none has such a time.
  const RingOperation* most_urgent() const;
  // Removes and returns the oldest one if it is done.
  std::shared_ptr<RingOperation> take_done();
  // Removes and returns the oldest one, whatever its progress.
  std::shared_ptr<RingOperation> take_oldest();

 private:
  Transfer* begin_next();
  Scratch take_scratch(std::size_t bytes);
  std::shared_ptr<RingOperation> take_front();

  const std::size_t rank_;
  const std::size_t ranks_;
  std::deque<std::unique_ptr<Transfer>> queue_;  // begun in a stream
  std::deque<std::shared_ptr<RingOperation>> waiting_;
  // Reused for the next operation: fresh memory costs as much as sending it.
  Scratch spare_;
};

}  // namespace atp
