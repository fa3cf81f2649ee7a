#include "atp/collective/host/presence.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace atp {
namespace {

// Locks of an open file description, as the ranks may be threads of one process.
struct flock lock_on(std::size_t rank) {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(rank);
  lock.l_len = 1;
  return lock;
}

}  // namespace

// A description of its own: that of the segment's descriptor is shared by all ranks to whom it was
// passed, and a mapping would keep it, and with it the lock, beyond a fork.
Result<Presence> Presence::of(int segment, std::size_t rank) {
  const std::string path = "/proc/self/fd/" + std::to_string(segment);
  Presence presence(
      std::make_unique<ClosedInChild>([&] { return open(path.c_str(), O_RDWR | O_CLOEXEC); }));
  struct flock lock = lock_on(rank);
  if (presence.descriptor() >= 0 && fcntl(presence.descriptor(), F_OFD_SETLK, &lock) == 0) {
    return presence;
  }
  return Error{"cannot lock a byte of " + path + ": " + std::strerror(errno)};
}

Presence::Presence(Presence&& other) noexcept = default;

Presence::~Presence() {
  if (opened_ == nullptr) return;
  const int mine = descriptor();
  opened_.reset();
  if (mine >= 0) close(mine);
}

bool Presence::is_there(std::size_t rank) const {
  struct flock lock = lock_on(rank);
  // Who cannot be asked is not said to be dead.
  return fcntl(descriptor(), F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

}  // namespace atp
