#include "experiments/papers/slot_pool/pool_worker.h"

#include <algorithm>
#include <utility>

namespace slot_pool {

PoolWorker::PoolWorker(std::uint32_t rank, std::uint32_t slots, Duration timeout, Send send)
    : rank_(rank), timeout_(timeout), send_(std::move(send)), slots_(slots) {}

std::span<std::int32_t> PoolWorker::values_of(std::uint32_t chunk) const {
  const std::size_t begin = std::size_t{chunk - first_} * kValues;
  return tensor_.subspan(begin, std::min(kValues, tensor_.size() - begin));
}

void PoolWorker::begin(Time now, std::span<std::int32_t> tensor) {
  first_ += chunks_;
  tensor_ = tensor;
  chunks_ = static_cast<std::uint32_t>((tensor.size() + kValues - 1) / kValues);
  answered_ = 0;
  for (std::uint32_t i = 0; i < std::min(slot_count(), chunks_); ++i) send_first(now, first_ + i);
}

void PoolWorker::send_first(Time now, std::uint32_t chunk) {
  slot(chunk) = {chunk, now, 0};
  ++counters_.sent;
  send(now, chunk);
}

void PoolWorker::send(Time now, std::uint32_t chunk) {
  const std::span<std::int32_t> values = values_of(chunk);
  PoolPacket packet;
  packet.rank = rank_;
  packet.chunk = chunk;
  packet.count = static_cast<std::uint32_t>(values.size());
  std::ranges::copy(values, packet.values);
  send_(packet);
  timers_.push_back({now + timeout_, chunk, slot(chunk).repeats});
}

void PoolWorker::handle_packet(Time now, const PoolPacket& packet) {
  Slot& used = slot(packet.chunk);
  if (used.chunk != packet.chunk || packet.count != values_of(packet.chunk).size()) {
    ++counters_.unneeded_answers;
    return;
  }
  ++counters_.answers;
  if (used.repeats > 0) {
    ++counters_.repaired;
    counters_.repairs += now - used.first_sent;
  }
  std::copy_n(packet.values, packet.count, values_of(packet.chunk).begin());
  used.chunk.reset();
  ++answered_;
  const std::uint32_t next = packet.chunk + slot_count();
  if (next < first_ + chunks_) send_first(now, next);
}

std::optional<Time> PoolWorker::next_timeout() {
  const auto over = [this](const Timer& timer) {
    const Slot& used = slot(timer.chunk);
    return used.chunk != timer.chunk || used.repeats != timer.repeats;
  };
  while (!timers_.empty() && over(timers_.front())) timers_.pop_front();
  return timers_.empty() ? std::nullopt : std::optional(timers_.front().due);
}

void PoolWorker::handle_timeout(Time now) {
  for (auto due = next_timeout(); due && *due <= now; due = next_timeout()) {
    const std::uint32_t chunk = timers_.front().chunk;
    timers_.pop_front();
    ++slot(chunk).repeats;
    ++counters_.repeats;
    send(now, chunk);
  }
}

}  // namespace slot_pool
