#include "atp/core/server/float_pool.h"

#include <algorithm>
#include <bit>

#include "atp/base/check.h"
#include "atp/wire/values.h"

namespace atp {

FloatPool::FloatPool(std::uint32_t slots, std::uint16_t value_count, std::size_t queue_capacity)
    : value_count_(value_count), sums_(std::size_t{slots} * value_count), queue_(queue_capacity) {
  ATP_CHECK(slots > 0);
  free_.reserve(slots);
  for (std::uint32_t slot = slots; slot-- > 0;) free_.push_back(slot);
}

std::size_t FloatPool::bytes_needed(std::uint32_t slots, std::uint16_t value_count,
                                    std::size_t queue_capacity) {
  return std::size_t{slots} * (value_count * sizeof(ExactSum) + sizeof(std::uint32_t)) +
         queue_capacity * sizeof(FloatRequest);
}

std::span<ExactSum> FloatPool::sums(std::uint32_t slot) {
  return {sums_.data() + std::size_t{slot} * value_count_, value_count_};
}

std::optional<std::uint32_t> FloatPool::take() {
  if (free_.empty()) return std::nullopt;
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  std::ranges::fill(sums(slot), ExactSum{});
  return slot;
}

void FloatPool::give_back(std::uint32_t slot) {
  ATP_CHECK(free_.size() < free_.capacity());
  free_.push_back(slot);
}

void FloatPool::add(std::uint32_t slot, const std::uint8_t* values) {
  for (ExactSum& sum : sums(slot)) {
    sum.add(std::bit_cast<float>(load_value(values)));
    values += 4;
  }
}

void FloatPool::round(std::uint32_t slot, std::span<std::int32_t> out) const {
  ATP_CHECK(out.size() == value_count_);
  const ExactSum* sum = sums_.data() + std::size_t{slot} * value_count_;
  for (std::int32_t& value : out) value = std::bit_cast<std::int32_t>((sum++)->rounded());
}

void FloatPool::enqueue(const FloatRequest& request) {
  ATP_CHECK(queue_size_ < queue_.size());
  queue_[(queue_head_ + queue_size_++) % queue_.size()] = request;
}

std::optional<FloatRequest> FloatPool::dequeue() {
  if (queue_size_ == 0) return std::nullopt;
  const FloatRequest request = queue_[queue_head_];
  queue_head_ = (queue_head_ + 1) % queue_.size();
  --queue_size_;
  return request;
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
