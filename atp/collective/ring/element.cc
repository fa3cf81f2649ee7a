#include "atp/collective/ring/element.h"

#include <cstring>

#include "atp/base/check.h"

namespace atp {
namespace {

template <class T>
void add(const std::byte* incoming, const std::byte* local, std::byte* to, std::size_t count) {
  const auto* theirs = reinterpret_cast<const T*>(incoming);
  const auto* mine = reinterpret_cast<const T*>(local);
  auto* sum = reinterpret_cast<T*>(to);
  for (std::size_t i = 0; i < count; ++i) sum[i] = theirs[i] + mine[i];
}

template <class T>
void divide(std::byte* values, std::size_t count, std::size_t divisor) {
  auto* value = reinterpret_cast<T*>(values);
  for (std::size_t i = 0; i < count; ++i) value[i] /= static_cast<T>(divisor);
}

template <class T>
void add_all(Arithmetic arithmetic, std::size_t ranks, const std::byte* incoming,
             const std::byte* local, std::byte* to, std::size_t bytes) {
  add<T>(incoming, local, to, bytes / sizeof(T));
  if (arithmetic == Arithmetic::kAddAndMean) divide<T>(to, bytes / sizeof(T), ranks);
}

}  // namespace

void combine(ElementType type, Arithmetic arithmetic, std::size_t ranks, const std::byte* incoming,
             const std::byte* local, std::byte* to, std::size_t bytes) {
  if (bytes == 0) return;
  if (arithmetic == Arithmetic::kStore) {
    std::memcpy(to, incoming, bytes);
    return;
  }
  ATP_CHECK(type != ElementType::kByte);
  type == ElementType::kFloat32 ? add_all<float>(arithmetic, ranks, incoming, local, to, bytes)
                                : add_all<double>(arithmetic, ranks, incoming, local, to, bytes);
}

}  // namespace atp
