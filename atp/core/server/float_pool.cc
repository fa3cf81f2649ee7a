#include "atp/core/server/float_pool.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "atp/base/check.h"
#include "atp/wire/values.h"

namespace atp {

FloatPool::FloatPool(std::uint32_t slots, std::uint32_t small_slots, std::uint16_t values_max,
                     std::size_t queue_capacity)
    : slots_(slots),
      values_max_(values_max),
      sums_(std::size_t{slots} * values_max + std::size_t{small_slots} * kSmallValues),
      queue_(queue_capacity) {
  ATP_CHECK(slots > 0);
  free_.reserve(slots);
  free_small_.reserve(small_slots);
  for (std::uint32_t slot = slots; slot-- > 0;) free_.push_back(slot);
  for (std::uint32_t i = small_slots; i-- > 0;) free_small_.push_back(slots + i);
}

std::size_t FloatPool::bytes_needed(std::uint32_t slots, std::uint32_t small_slots,
                                    std::uint16_t values_max, std::size_t queue_capacity) {
  const std::size_t sums =
      std::size_t{slots} * values_max + std::size_t{small_slots} * kSmallValues;
  return sums * sizeof(ExactSum) + std::size_t{slots + small_slots} * sizeof(std::uint32_t) +
         queue_capacity * sizeof(FloatRequest);
}

std::optional<std::uint32_t> FloatPool::take(std::size_t values) {
  std::vector<std::uint32_t>& stack =
      values <= kSmallValues && !free_small_.empty() ? free_small_ : free_;
  if (stack.empty()) return std::nullopt;
  const std::uint32_t slot = stack.back();
  stack.pop_back();
  ATP_CHECK(fits(slot, values));
  std::fill_n(sums_.data() + begin_of(slot), values, ExactSum{});
  return slot;
}

void FloatPool::give_back(std::uint32_t slot) {
  std::vector<std::uint32_t>& stack = is_small(slot) ? free_small_ : free_;
  ATP_CHECK(stack.size() < stack.capacity());
  stack.push_back(slot);
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
