// The test program's operator new, which counts. It stands alone, or the compiler would see
// through it and take the pair of malloc and delete for a mistake.

#include <cstdint>
#include <cstdlib>
#include <new>

namespace atp {
namespace {
std::uint64_t allocations = 0;
}
std::uint64_t allocations_so_far() { return allocations; }
}  // namespace atp

void* operator new(std::size_t size) {
  ++atp::allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
