#include "explore/state_table.h"

#include <algorithm>
#include <cstring>

#include "atp/base/check.h"
#include "explore/mix.h"

namespace atp::explore {
namespace {

// Number of packets, budgets and time; then the nodes, then the packets.
constexpr std::size_t kHeadBytes = 1 + sizeof(Budgets) + sizeof(Cluster::TimeId);
static_assert(sizeof(Budgets) == 6);

template <class T>
std::uint8_t* write(std::uint8_t* at, const T* values, std::size_t count) {
  if (count > 0) std::memcpy(at, values, count * sizeof(T));
  return at + count * sizeof(T);
}

template <class T>
const std::uint8_t* read(const std::uint8_t* at, T* values, std::size_t count) {
  if (count > 0) std::memcpy(values, at, count * sizeof(T));
  return at + count * sizeof(T);
}

}  // namespace

void StateTable::encode(const State& state) {
  const std::size_t packets = state.packets.size();
  ATP_CHECK(packets <= 255);
  code_.resize(kHeadBytes + hosts_ * sizeof(NodeStore::Id) + packets * sizeof(PacketPool::Id));
  code_[0] = static_cast<std::uint8_t>(packets);
  std::uint8_t* at = code_.data() + 1;
  at = write(at, &state.left, 1);
  at = write(at, &state.now, 1);
  at = write(at, state.nodes.data(), hosts_);
  write(at, state.packets.data(), packets);
}

std::span<const std::uint8_t> StateTable::bytes_of(Id id) const {
  const std::uint8_t* at = chunks_[places_[id] / kChunkBytes].get() + places_[id] % kChunkBytes;
  return {at, kHeadBytes + hosts_ * sizeof(NodeStore::Id) + at[0] * sizeof(PacketPool::Id)};
}

void StateTable::get(Id id, State& state) const {
  const std::span<const std::uint8_t> bytes = bytes_of(id);
  const std::uint8_t* at = bytes.data() + 1;
  at = read(at, &state.left, 1);
  at = read(at, &state.now, 1);
  at = read(at, state.nodes.data(), hosts_);
  state.packets.resize(bytes[0]);
  read(at, state.packets.data(), bytes[0]);
}

std::pair<StateTable::Id, bool> StateTable::put(const State& state) {
  encode(state);
  Mix mix;
  mix.add(code_);
  const std::uint64_t digest = mix.value();
  if (3 * (size() + 1) > 2 * slots_.size()) grow();
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = digest & mask;; at = (at + 1) & mask) {
    if (slots_[at] == 0) {
      ATP_CHECK(size() < 0xffffffffU);
      store();
      slots_[at] = (digest & 0xffffffff00000000U) | size();
      return {static_cast<Id>(size() - 1), true};
    }
    if ((slots_[at] ^ digest) >> 32 != 0) continue;
    const Id id = static_cast<Id>(slots_[at]) - 1;
    const std::span<const std::uint8_t> other = bytes_of(id);
    if (std::equal(code_.begin(), code_.end(), other.begin(), other.end())) return {id, false};
  }
}

void StateTable::store() {
  if (used_ + code_.size() > kChunkBytes) {
    chunks_.push_back(std::make_unique_for_overwrite<std::uint8_t[]>(kChunkBytes));
    used_ = 0;
  }
  std::memcpy(chunks_.back().get() + used_, code_.data(), code_.size());
  places_.push_back((chunks_.size() - 1) * kChunkBytes + used_);
  used_ += code_.size();
}

// The place of a state depends on the lower bits of its digest, which are not stored, so this
// computes them again.
void StateTable::grow() {
  slots_.assign(2 * slots_.size(), 0);
  const std::size_t mask = slots_.size() - 1;
  for (Id id = 0; id < size(); ++id) {
    Mix mix;
    mix.add(bytes_of(id));
    const std::uint64_t digest = mix.value();
    std::size_t at = digest & mask;
    while (slots_[at] != 0) at = (at + 1) & mask;
    slots_[at] = (digest & 0xffffffff00000000U) | (id + 1);
  }
}

std::size_t StateTable::bytes() const {
  return chunks_.size() * kChunkBytes + places_.capacity() * sizeof(places_[0]) +
         slots_.capacity() * sizeof(slots_[0]);
}

}  // namespace atp::explore
