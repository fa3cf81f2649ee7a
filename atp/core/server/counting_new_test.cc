// The test program's counting operator new. It has a file of its own because the compiler would
// otherwise inline it and warn about the pair of malloc and delete.

#include <malloc.h>

#include <cstdint>
#include <cstdlib>
#include <new>

namespace atp {
namespace {
std::uint64_t allocations = 0;
std::uint64_t bytes_held = 0;
}  // namespace
std::uint64_t allocations_so_far() { return allocations; }
std::uint64_t bytes_held_now() { return bytes_held; }
}  // namespace atp

void* operator new(std::size_t size) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  ++atp::allocations;
  atp::bytes_held += malloc_usable_size(memory);
  return memory;
}
void operator delete(void* memory) noexcept {
  atp::bytes_held -= malloc_usable_size(memory);
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }
