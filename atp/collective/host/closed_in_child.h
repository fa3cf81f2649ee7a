#pragma once

#include <functional>
#include <vector>

namespace atp {

// Descriptors that a forked child shall not keep open: with a socket of its parent's in its hands a
// child would hide from all peers that the parent has died. In the child they lead to /dev/null, so
// that a number which is still known there is never that of something else.
class ClosedInChild {
 public:
  explicit ClosedInChild(std::vector<int> descriptors);
  // For a descriptor that no child may have for a moment: no thread forks while `open` makes it.
  // (A negative one is none.)
  explicit ClosedInChild(const std::function<int()>& open);
  // To be called before they are closed here.
  ~ClosedInChild();
  ClosedInChild(const ClosedInChild&) = delete;
  ClosedInChild& operator=(const ClosedInChild&) = delete;

  const std::vector<int>& descriptors() const { return descriptors_; }

 private:
  std::vector<int> descriptors_;
};

}  // namespace atp
