#include "atp/collective/shm/presence.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace atp {
namespace {

// Uses locks of an open file description, because the ranks may be threads of one process.
struct flock lock_on(std::size_t rank) {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(rank);
  lock.l_len = 1;
  return lock;
}

}  // namespace

// Opens a file description of its own: the segment's is shared by all ranks that it was passed to,
// and a mapping would keep it, and with it the lock, alive across a fork.
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
  // If the query fails, the rank does not count as dead.
  return fcntl(descriptor(), F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

}  // namespace atp
