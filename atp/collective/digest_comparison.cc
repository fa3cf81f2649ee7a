#include "atp/collective/digest_comparison.h"

#include <algorithm>
#include <vector>

#include "atp/collective/text.h"

namespace atp {
namespace {

Digest read_digest(std::span<const std::uint32_t> words) {
  Digest digest;
  for (std::size_t i = 0; i < digest.bytes.size(); ++i) {
    digest.bytes[i] = static_cast<std::uint8_t>(words[i / 4] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

struct Group {
  Digest digest;
  RankSet ranks;
};

// By digest, the largest group first, among equals the one with the lowest rank.
std::vector<Group> groups_of(std::span<const std::uint32_t> words) {
  std::vector<Group> groups;
  for (std::size_t rank = 0; rank * kDigestWords < words.size(); ++rank) {
    const Digest digest = read_digest(words.subspan(rank * kDigestWords, kDigestWords));
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const Group& g) { return g.digest == digest; });
    if (group == groups.end()) group = groups.insert(groups.end(), Group{digest, {}});
    group->ranks.insert(static_cast<Rank>(rank));
  }
  std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    if (a.ranks.size() != b.ranks.size()) return a.ranks.size() > b.ranks.size();
    return a.ranks.lowest() < b.ranks.lowest();
  });
  return groups;
}

}  // namespace

void write_digest(const Digest& digest, Rank rank, std::span<std::uint32_t> words) {
  std::uint32_t* at = words.data() + rank * kDigestWords;
  for (std::size_t i = 0; i < kDigestWords; ++i) {
    at[i] = 0;
    for (std::size_t b = 0; b < 4; ++b) at[i] = at[i] << 8 | digest.bytes[4 * i + b];
  }
}

std::optional<std::string> digest_difference(std::span<const std::uint32_t> words,
                                             const OperationRange& operations) {
  const std::vector<Group> groups = groups_of(words);
  if (groups.size() < 2) return std::nullopt;
  RankSet others;
  for (std::size_t i = 1; i < groups.size(); ++i) {
    groups[i].ranks.for_each([&](Rank rank) { others.insert(rank); });
  }
  const bool majority = groups[0].ranks.size() > others.size();
  std::string text = "the results of " + ranks_text(others) + " differ from those of " +
                     ranks_text(groups[0].ranks) + " in operations " +
                     std::to_string(operations.first) + " to " + std::to_string(operations.last) +
                     " or before them";
  for (std::size_t i = 0; i < groups.size() && i < 2; ++i) {
    text += (i == 0 ? " (digest " : ", not ") + groups[i].digest.text();
  }
  text += "): ";
  text += majority ? "look for faulty memory or a faulty network card at " + ranks_text(others)
                   : "look for faulty memory or a faulty network card at either";
  return text + ", or for a program that writes to a tensor before its operation has ended";
}

}  // namespace atp
