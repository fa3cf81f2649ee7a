// Hands out, clears and takes back the slots, and keeps the queue of fragments that wait for one.
#include "atp/core/server/float_pool.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "atp/base/check.h"
#include "atp/wire/values.h"

namespace atp {

FloatPool::FreeSlots::FreeSlots(std::uint32_t first, std::uint32_t count) : slots_(count) {
  for (std::uint32_t i = count; i-- > 0;) give_back(first + i);
}

std::uint32_t FloatPool::FreeSlots::take() {
  ATP_CHECK(size_ > 0);
  return std::exchange(slots_[--size_], 0);
}

void FloatPool::FreeSlots::give_back(std::uint32_t slot) {
  ATP_CHECK(size_ < slots_.size());
  slots_[size_++] = slot;
}

FloatPool::FloatPool(std::uint32_t slots, std::uint32_t small_slots, std::uint16_t values_max,
                     std::size_t queue_capacity)
    : slots_(slots),
      values_max_(values_max),
      sums_(std::size_t{slots} * values_max + std::size_t{small_slots} * kSmallValues),
      free_(0, slots),
      free_small_(slots, small_slots),
      queue_(queue_capacity) {
  ATP_CHECK(slots > 0);
}

std::size_t FloatPool::bytes_needed(std::uint32_t slots, std::uint32_t small_slots,
                                    std::uint16_t values_max, std::size_t queue_capacity) {
  const std::size_t sums =
      std::size_t{slots} * values_max + std::size_t{small_slots} * kSmallValues;
  return sums * sizeof(ExactSum) + std::size_t{slots + small_slots} * sizeof(std::uint32_t) +
         queue_capacity * sizeof(FloatRequest);
}

std::optional<std::uint32_t> FloatPool::take(std::size_t values) {
  FreeSlots& free = values <= kSmallValues && !free_small_.empty() ? free_small_ : free_;
  if (free.empty()) return std::nullopt;
  const std::uint32_t slot = free.take();
  ATP_CHECK(fits(slot, values));
  std::fill_n(sums_.data() + begin_of(slot), values, ExactSum{});
  return slot;
}

void FloatPool::give_back(std::uint32_t slot) {
  (is_small(slot) ? free_small_ : free_).give_back(slot);
}

void FloatPool::add(std::uint32_t slot, const std::uint8_t* values, std::size_t count) {
  ExactSum* sum = sums_.data() + begin_of(slot);
  for (std::size_t i = 0; i < count; ++i)
    sum[i].add(std::bit_cast<float>(load_value(values + 4 * i)));
}

void FloatPool::round(std::uint32_t slot, std::uint8_t* out, std::size_t count) const {
  const ExactSum* sum = sums_.data() + begin_of(slot);
  for (std::size_t i = 0; i < count; ++i) {
    const float rounded = sum[i].rounded();
    std::memcpy(out + 4 * i, &rounded, sizeof rounded);
  }
}

void FloatPool::enqueue(const FloatRequest& request) {
  ATP_CHECK(queue_size_ < queue_.size());
  queue_[(queue_head_ + queue_size_++) % queue_.size()] = request;
}

std::optional<FloatRequest> FloatPool::next() const {
  return queue_size_ == 0 ? std::nullopt : std::optional(queue_[queue_head_]);
}

void FloatPool::dequeue() {
  ATP_CHECK(queue_size_ > 0);
  queue_head_ = (queue_head_ + 1) % queue_.size();
  --queue_size_;
}

void FloatPool::cancel(const FloatRequest& request) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < queue_size_; ++i) {
    const FloatRequest entry = queue_[(queue_head_ + i) % queue_.size()];
    if (entry != request) queue_[(queue_head_ + kept++) % queue_.size()] = entry;
  }
  queue_size_ = kept;
}

}  // namespace atp
