#pragma once

#include <vector>

namespace atp {

// Descriptors that a forked child shall not keep open: with a socket of its parent's in its hands a
// child would hide from all peers that the parent has died. In the child they lead to /dev/null, so
// that a number which is still known there is never that of something else.
class ClosedInChild {
 public:
  explicit ClosedInChild(std::vector<int> descriptors);
  // To be called before they are closed here.
  ~ClosedInChild();
  ClosedInChild(const ClosedInChild&) = delete;
  ClosedInChild& operator=(const ClosedInChild&) = delete;

 private:
  const std::vector<int> descriptors_;
};

}  // namespace atp
