#pragma once

#include <functional>
#include <vector>

namespace atp {

// Descriptors that a forked child must not keep open: a child that holds its parent's sockets would
// hide the parent's death from all peers. In the child they are redirected to /dev/null, so that a
// number still in use there never refers to something else.
class ClosedInChild {
 public:
  explicit ClosedInChild(std::vector<int> descriptors);
  // For a descriptor that no child may inherit even briefly: no thread forks while `open` runs. (A
  // negative descriptor is ignored.)
  explicit ClosedInChild(const std::function<int()>& open);
  // Destroy this before closing the descriptors here.
  ~ClosedInChild();
  ClosedInChild(const ClosedInChild&) = delete;
  ClosedInChild& operator=(const ClosedInChild&) = delete;

  const std::vector<int>& descriptors() const { return descriptors_; }

 private:
  std::vector<int> descriptors_;
};

}  // namespace atp
