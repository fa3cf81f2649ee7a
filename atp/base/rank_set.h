#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

// A set of ranks: the contribution bitmap of docs/inside/protocol §3. Rank r is bit r mod 64 of
// word r div 64. It can hold kMaxRanks bits; the wire carries only the words that a job needs, and
// the operations look only at those words: every packet takes a dozen operations, and most jobs
// have one word.

namespace atp {

using Rank = std::uint16_t;

inline constexpr std::size_t kMaxRanks = 1024;
inline constexpr std::size_t kRankWords = kMaxRanks / 64;

class RankSet {
 public:
  constexpr RankSet() = default;

  static constexpr RankSet of(Rank rank) {
    RankSet set;
    set.insert(rank);
    return set;
  }
  // The ranks 0 … count − 1.
  static constexpr RankSet first(std::size_t count) {
    RankSet set;
    for (std::size_t r = 0; r < count; ++r) set.insert(static_cast<Rank>(r));
    return set;
  }

  constexpr void insert(Rank rank) {
    words_[rank / 64] |= std::uint64_t{1} << (rank % 64);
    use(rank / 64 + 1U);
  }
  constexpr void erase(Rank rank) { words_[rank / 64] &= ~(std::uint64_t{1} << (rank % 64)); }
  constexpr void clear() { *this = {}; }
  constexpr void set_word(std::size_t w, std::uint64_t word) {
    words_[w] = word;
    use(w + 1);
  }

  constexpr bool contains(Rank rank) const { return (words_[rank / 64] >> (rank % 64)) & 1; }
  constexpr bool contains(const RankSet& other) const {
    std::uint64_t lacking = 0;
    for (std::size_t w = 0; w < other.used_; ++w) lacking |= other.words_[w] & ~words_[w];
    return lacking == 0;
  }
  constexpr bool intersects(const RankSet& other) const {
    std::uint64_t common = 0;
    for (std::size_t w = 0; w < used_; ++w) common |= other.words_[w] & words_[w];
    return common != 0;
  }
  constexpr bool empty() const {
    std::uint64_t any = 0;
    for (std::size_t w = 0; w < used_; ++w) any |= words_[w];
    return any == 0;
  }
  // Does not count bits: it runs for every packet, and popcount is slow on the x86-64 baseline.
  constexpr bool is_single() const {
    std::uint64_t seen = 0;
    bool more = false;
    for (std::size_t w = 0; w < used_; ++w) {
      const std::uint64_t word = words_[w];
      more |= (word & (word - 1)) != 0 || (word != 0 && seen != 0);
      seen |= word;
    }
    return seen != 0 && !more;
  }
  constexpr std::size_t size() const {
    std::size_t n = 0;
    for (std::size_t w = 0; w < used_; ++w) n += static_cast<std::size_t>(std::popcount(words_[w]));
    return n;
  }
  // The lowest rank; the set must not be empty.
  constexpr Rank lowest() const {
    std::size_t w = 0;
    while (words_[w] == 0) ++w;
    return static_cast<Rank>(w * 64 + static_cast<std::size_t>(std::countr_zero(words_[w])));
  }

  constexpr RankSet& operator|=(const RankSet& other) {
    for (std::size_t w = 0; w < other.used_; ++w) words_[w] |= other.words_[w];
    use(other.used_);
    return *this;
  }
  constexpr RankSet& operator&=(const RankSet& other) {
    for (std::size_t w = 0; w < used_; ++w) words_[w] &= other.words_[w];
    return *this;
  }
  constexpr RankSet& operator-=(const RankSet& other) {
    for (std::size_t w = 0; w < used_; ++w) words_[w] &= ~other.words_[w];
    return *this;
  }
  friend constexpr RankSet operator|(RankSet a, const RankSet& b) { return a |= b; }
  friend constexpr RankSet operator&(RankSet a, const RankSet& b) { return a &= b; }
  friend constexpr RankSet operator-(RankSet a, const RankSet& b) { return a -= b; }
  constexpr bool operator==(const RankSet& other) const {
    std::uint64_t different = 0;
    const std::size_t used = std::max(used_, other.used_);
    for (std::size_t w = 0; w < used; ++w) different |= words_[w] ^ other.words_[w];
    return different == 0;
  }

  // Calls visit(rank) for each member in rising order.
  template <class Visit>
  constexpr void for_each(Visit&& visit) const {
    for (std::size_t w = 0; w < used_; ++w) {
      for (std::uint64_t bits = words_[w]; bits != 0; bits &= bits - 1) {
        visit(static_cast<Rank>(w * 64 + static_cast<std::size_t>(std::countr_zero(bits))));
      }
    }
  }

  constexpr const std::array<std::uint64_t, kRankWords>& words() const { return words_; }

 private:
  constexpr void use(std::size_t words) { used_ = std::max(used_, words); }

  std::array<std::uint64_t, kRankWords> words_{};
  std::size_t used_ = 0;  // all words from here on are 0
};

}  // namespace atp
