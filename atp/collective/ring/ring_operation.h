#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "atp/collective/completion.h"
#include "atp/collective/ring/operation_header.h"

// One operation from its submission to its end, shared by the caller's handle and the ring's
// thread.

namespace atp {

class RingOperation {
 public:
  RingOperation(RingRequest request, std::uint64_t number)
      : request_(std::move(request)),
        number_(number),
        completion_(std::exchange(request_.on_done, nullptr)) {}

  const RingRequest& request() const { return request_; }  // without the callback
  std::uint64_t number() const { return number_; }
  std::string text() const { return describe(make_header(request_, number_)); }

  void finish(Status result) { completion_.finish(std::move(result)); }
  Status wait() { return completion_.wait(); }
  bool done() const { return completion_.done(); }

 private:
  RingRequest request_;
  const std::uint64_t number_;
  Completion completion_;
};

}  // namespace atp
