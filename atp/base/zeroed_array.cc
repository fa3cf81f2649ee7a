#include "atp/base/zeroed_array.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace atp {
namespace {

// From this size on, memory comes from mmap() as the kernel's zero pages. calloc() would have to
// clear memory that it reuses from its heap, whose size depends on earlier frees.
constexpr std::size_t kPagesFrom = std::size_t{256} << 10;

std::atomic<std::size_t> held{0};

void* zeroed(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  if (bytes < kPagesFrom) {
    void* at = std::calloc(1, bytes);
    return at != nullptr ? at : throw std::bad_alloc();
  }
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return at != MAP_FAILED ? at : throw std::bad_alloc();
}

}  // namespace

ZeroedMemory::ZeroedMemory(std::size_t bytes) : at_(zeroed(bytes)), bytes_(bytes) {
  held += bytes_;
}

std::size_t ZeroedMemory::held_now() { return held; }

ZeroedMemory::~ZeroedMemory() {
  held -= bytes_;
  if (bytes_ < kPagesFrom) {
    std::free(at_);
  } else {
    munmap(at_, bytes_);
  }
}

ZeroedMemory::ZeroedMemory(const ZeroedMemory& other) : ZeroedMemory(other.bytes_) {
  if (bytes_ > 0) std::memcpy(at_, other.at_, bytes_);
}

}  // namespace atp
