#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "atp/base/rank_set.h"
#include "atp/wire/body_field.h"
#include "atp/wire/cause.h"
#include "atp/wire/endpoint.h"
#include "atp/wire/packet_view.h"

// The body of STATUS, with which switches and servers inform workers and one another
// (docs/inside/protocol §3.2), and the refusal of a JOIN that it may carry. As in join.h, read()
// returns nothing unless the body has exactly the length that its counts state.

namespace atp {

enum class StatusCode : std::uint16_t {
  kWaitingFor = 0,         // about: the ranks missing
  kOperationMismatch = 1,  // about: ranks with the header's operation; other: those with another
  kRankTaken = 2,          // about: the rank; endpoints: who holds it
  kUnknownJob = 3,         // the sender does not know the addressed ranks: join again
  kVersions = 4,           // reason: lowest version · 256 + highest
  kRefused = 5,            // a Refusal; about: the rank refused; nonce 0: for the other ranks
  kLeaseEnded = 6,         // about: the ranks lost; with a nonce, the answer to a JOIN
  kDetached = 7,           // about: the ranks; numbers: their detachments, in rank order
  kServerRestarted = 8,    // nonce: of the JOIN, which names an earlier life of the server
  kLeft = 9,               // about: ranks that left; cause: of one that broke the job; with a
                           // nonce, the acknowledgement of a LEAVE
  kAreYouThere = 10,       // a liveness probe; nonce: drawn by the sender; reason: how many
                           // switches pass it on
  kHere = 11,              // the answer; nonce: of the question
  kOperation = 12,         // cause: what a rank calls an operation that the server waits for
  kProve = 13,             // answers a JOIN without a right proof; numbers: the proof's halves
  kCount,
};

std::string_view to_string(StatusCode code);

enum class RefusalReason : std::uint16_t {
  kNone = 0,
  kWorldSize = 1,   // a world size or bitmap width other than the others'
  kStreams = 2,     // a stream range other than the others'
  kValueCount = 3,  // the path carries less than the agreed K
  kNumberFormat = 4,
  kUpstream = 5,  // the switch may not send to the next hop
  kRoute = 6,     // no hop left, the route is too long, or it names another node
  kTooManyJobs = 7,
  kRank = 8,  // rank ≥ world size, or not exactly one rank
  kVersion = 9,
  kMemory = 10,        // the job needs more memory than the node's limit leaves
  kIncarnation = 11,   // not a refusal: a rank waits in another incarnation of the job
  kDraining = 12,      // the node takes no new jobs, because it is about to end
  kKey = 13,           // expected: a KeyProblem
  kTenantJobs = 14,    // the tenant's jobs at the node are as many as its quota allows
  kTenantMemory = 15,  // the job needs more memory than the tenant's quota leaves
  kTooManyRanks = 16,  // for values of 16 bits
  kSocket = 17,        // another rank has joined from the same socket
  kCount,
};

std::string_view to_string(RefusalReason reason);

// What is wrong with the tag of a JOIN (docs/inside/protocol §2, *Keys*).
enum class KeyProblem : std::uint16_t {
  kNone = 0,
  kNoTag = 1,       // the node has keys, and the JOIN no tag
  kUnknownKey = 2,  // the node has no key of this name
  kWrongTag = 3,    // another key of the same name, or an address other than the tagged one
  kNoKeys = 4,      // the JOIN has a tag, and the node no keys
  kCount,
};

std::string_view to_string(KeyProblem problem);

// Why a JOIN is refused: the expected value, the JOIN's value, and the ranks with the expected one
// (docs/inside/protocol §3.2 lists the numbers of each reason; both are 0 if a reason has none).
struct Refusal {
  RefusalReason reason = RefusalReason::kNone;
  std::uint32_t expected = 0;
  std::uint32_t found = 0;
  RankSet holders;  // ranks with the expected value; empty: the refusing node's own limit
  // kRoute, of a JOIN that was meant for another node: where it arrived, and the node that its
  // route names.
  Endpoint arrived_at;
  Endpoint meant_for;

  // A JOIN changes what its receiver knows, so it counts only at the node for which its sender
  // wrote it, the first of its remaining route (docs/inside/protocol §2, *JOIN*).
  static Refusal if_meant_for_another(const Endpoint& meant_for, const Endpoint& arrived_at) {
    if (meant_for == arrived_at) return {};
    return {.reason = RefusalReason::kRoute, .arrived_at = arrived_at, .meant_for = meant_for};
  }

  explicit operator bool() const { return reason != RefusalReason::kNone; }
  bool operator==(const Refusal&) const = default;
};

// Refuses a job that needs more memory than is left; its numbers are in MiB.
Refusal memory_refusal(std::size_t left, std::size_t needed,
                       RefusalReason reason = RefusalReason::kMemory);

// A stream range as one number of a Refusal.
constexpr std::uint32_t streams_number(std::uint16_t first, std::uint16_t count) {
  return std::uint32_t{first} << 16 | count;
}

// A range of protocol versions, likewise, and as the reason of *versions*.
constexpr std::uint16_t versions_number(std::uint8_t lowest, std::uint8_t highest) {
  return static_cast<std::uint16_t>(lowest << 8 | highest);
}

// The version of a STATUS *versions*, chosen so that the sender of an unknown version can read it.
// Earlier versions have the same STATUS layout; the layout of later ones is not known here.
constexpr std::uint8_t version_of_answer(std::uint8_t asker) {
  return asker < ATP_VERSION ? asker : ATP_VERSION;
}

// STATUS. `about` and `other` have the packet's bitmap width. A message never exceeds a 1500-byte
// MTU: kMaxNumbers bounds the ranks in one *detached*. An *unknown job* is its code alone, and so
// no larger than the smallest GRADIENT that it answers.
struct StatusMessage {
  static constexpr std::size_t kMaxEndpoints = 8;
  static constexpr std::size_t kMaxNumbers = 128;

  // Of *operation mismatch*: some ranks are gone, so pending operations fail now.
  static constexpr std::uint16_t kSomeAreGone = 1;

  StatusCode code = StatusCode::kWaitingFor;
  std::uint16_t reason = 0;
  std::uint64_t nonce = 0;  // whose JOIN or LEAVE this answers; else 0
  RankSet about;
  RankSet other;
  std::array<Endpoint, kMaxEndpoints> endpoints{};
  std::uint16_t endpoint_count = 0;
  CauseText cause;  // *left*; *operation* and *waiting for*: the operation's description
  // *detached*: one per rank of `about`; *refused*: expected, found; *prove*: the proof's halves.
  std::array<std::uint32_t, kMaxNumbers> numbers{};

  static StatusMessage refused(const Refusal& refusal, const RankSet& about, std::uint64_t nonce);
  // Asks the sender of a JOIN with this nonce for another one with this proof.
  static StatusMessage prove(std::uint64_t proof, const RankSet& about, std::uint64_t nonce);
  std::uint64_t proof() const { return std::uint64_t{numbers[0]} << 32 | numbers[1]; }
  // The answer to a STATUS *are you there*; no other STATUS has one.
  static std::optional<StatusMessage> answer_to(const PacketView& packet);
  // Whether more switches have to pass on this *are you there*.
  static bool is_for_a_node_above(const PacketView& packet);
  // The reason, if the code is *refused*. kNone stands for a reason of a later version.
  Refusal refusal() const;

  std::size_t number_count() const {
    if (code == StatusCode::kRefused || code == StatusCode::kProve) return 2;
    return code == StatusCode::kDetached ? about.size() : 0;
  }
  bool add_endpoint(const Endpoint& endpoint) {
    for (std::size_t i = 0; i < endpoint_count; ++i) {
      if (endpoints[i] == endpoint) return true;
    }
    if (endpoint_count == kMaxEndpoints) return false;
    endpoints[endpoint_count++] = endpoint;
    return true;
  }
  std::size_t bytes(std::uint8_t bitmap_words) const;
  void write(std::uint8_t* at, std::uint8_t bitmap_words) const;
  static std::optional<StatusMessage> read(std::span<const std::uint8_t> body,
                                           std::uint8_t bitmap_words);
  // Like the one above; an *unknown job* is about the ranks that it is addressed to.
  static std::optional<StatusMessage> read(const PacketView& packet);
  bool operator==(const StatusMessage&) const = default;
};

}  // namespace atp
