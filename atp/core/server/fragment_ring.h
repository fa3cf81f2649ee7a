#pragma once

#include <cstdint>
#include <span>

#include "atp/base/zeroed_array.h"
#include "atp/core/placement.h"
#include "atp/core/server/fragment.h"
#include "atp/wire/packet_view.h"

// The fragments of one stream that the server holds: a ring of 2·Wmax (docs/inside/protocol §6).
//
// A worker sends sequence s only when it has the PARAMETER of every sequence ≤ s − Wmax. So once s
// is complete, all workers hold the results up to s − Wmax, and the server forgets these (H18). If
// s is the highest complete sequence, no worker can send beyond s + Wmax. The sequences that may
// arrive therefore fit the ring exactly: [c − Wmax, c + Wmax), where c = `completed_end()` is one
// more than the highest complete sequence. place() tells whether a sequence from the wire is in
// that range; callers must not pass any other sequence to the other functions. A slot is cleared
// when a new sequence first uses it, so every step takes constant time.
//
// The ring also has the aggregator index of each sequence (§5: at first its placement, then the one
// in the PARAMETER of sequence − Wmax), so that it can name a fragment of which nothing has
// arrived.

namespace atp {

enum class RingPlace : std::uint8_t { kPast, kInside, kFuture };

class FragmentRing {
 public:
  // wmax: a power of two.
  FragmentRing(const Placement& placement, const JobKey& job, std::uint16_t stream,
               std::uint32_t wmax, std::uint16_t value_count, std::uint64_t first_sequence = 0);
  static std::size_t bytes_needed(std::uint32_t wmax, std::uint16_t value_count);

  RingPlace place(std::uint64_t sequence) const;
  Fragment& at(std::uint64_t sequence);
  // Room for 4K bytes.
  std::span<std::uint8_t> values(std::uint64_t sequence);
  // Null if nothing of it was ever stored.
  const Fragment* find(std::uint64_t sequence) const;

  // Notes that a packet of this sequence has arrived.
  void saw(std::uint64_t sequence);
  // The fragment is complete with this next index. Calls forget(fragment) for those that leave
  // the ring incomplete, which only members that break the rules can bring about.
  template <class Forget>
  void complete(Fragment& fragment, std::uint32_t next_index, Forget&& forget);

  // The lowest sequence that is not complete.
  std::uint64_t head() const { return head_; }
  // One more than the highest complete sequence. First transmissions go in order, so every worker
  // has sent everything below it.
  std::uint64_t completed_end() const { return completed_end_; }
  // One more than the highest sequence of which a packet has arrived.
  std::uint64_t seen_end() const { return seen_end_; }
  // Whether a fragment is incomplete although a packet of it, or of a later one, has arrived.
  bool pending() const { return head_ < seen_end_; }

  std::uint32_t expected_index(std::uint64_t sequence) const { return indices_.at(sequence); }

  bool operator==(const FragmentRing&) const = default;

 private:
  std::size_t slot(std::uint64_t sequence) const { return sequence & (2 * wmax_ - 1); }
  std::uint64_t begin() const {
    return completed_end_ - first_ < wmax_ ? first_ : completed_end_ - wmax_;
  }
  bool holds(std::uint64_t sequence) const;
  void move_head();

  std::uint64_t wmax_;
  std::uint64_t first_;  // of the job
  std::uint16_t value_count_;
  ZeroedArray<Fragment> fragments_;   // zeros: not in use
  ZeroedArray<std::uint8_t> values_;  // 2·wmax rows of 4·value_count: lanes in host byte order
  IndexMap indices_;                  // for the next sequence to complete in each slot
  std::uint64_t head_;
  std::uint64_t completed_end_;
  std::uint64_t seen_end_;
};

template <class Forget>
void FragmentRing::complete(Fragment& fragment, std::uint32_t next_index, Forget&& forget) {
  fragment.mode = FragmentMode::kComplete;
  fragment.next_index = next_index;
  indices_.set_next(fragment.sequence, next_index);
  if (fragment.sequence >= completed_end_) completed_end_ = fragment.sequence + 1;
  for (; head_ < begin(); ++head_) {
    if (holds(head_) && !fragments_[slot(head_)].complete()) forget(fragments_[slot(head_)]);
  }
  move_head();
}

}  // namespace atp
