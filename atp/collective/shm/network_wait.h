#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "atp/base/rank_set.h"

namespace atp {

// For whom a host's leader waits in the network.
struct NetworkWait {
  std::uint32_t count = 0;  // of such reports: unless it grows, the leader reports nothing
  RankSet ranks;
  std::string why;  // empty: it does not wait
};

// That, in shared memory: written by the leader alone, and read by the others at any time. No
// reader ever waits for a leader that has died while it wrote. (A seqlock.)
class SharedNetworkWait {
 public:
  // A longer text is cut.
  void write(const RankSet& ranks, std::string_view why) {
    const std::uint32_t before = count_.load();
    count_.store(before + 1);
    for (std::size_t i = 0; i < kRankWords; ++i) ranks_[i].store(ranks.words()[i]);
    for (std::size_t i = 0; i < text_.size(); ++i) {
      std::array<char, kWord> part{};
      const std::string_view rest = why.substr(std::min(why.size(), i * kWord));
      std::memcpy(part.data(), rest.data(), std::min(rest.size(), kWord));
      text_[i].store(std::bit_cast<std::uint64_t>(part));
    }
    count_.store(before + 2);
  }
  // Nothing while it is being written.
  std::optional<NetworkWait> read() const {
    NetworkWait wait{.count = count_.load(), .ranks = {}, .why = {}};
    for (std::size_t i = 0; i < kRankWords; ++i) {
      if (const std::uint64_t word = ranks_[i].load(); word != 0) wait.ranks.set_word(i, word);
    }
    for (const std::atomic<std::uint64_t>& word : text_) {
      const auto part = std::bit_cast<std::array<char, kWord>>(word.load());
      wait.why.append(part.data(), part.size());
    }
    if (wait.count % 2 != 0 || count_.load() != wait.count) return std::nullopt;
    wait.why.resize(std::min(wait.why.size(), wait.why.find('\0')));
    return wait;
  }

 private:
  static constexpr std::size_t kWord = sizeof(std::uint64_t);

  std::atomic<std::uint32_t> count_;  // odd while it is being written
  std::array<std::atomic<std::uint64_t>, kRankWords> ranks_;
  std::array<std::atomic<std::uint64_t>, 50> text_;
};

}  // namespace atp
