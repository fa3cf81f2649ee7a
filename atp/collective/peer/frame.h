#pragma once

#include <cstdint>
#include <string>

#include "atp/collective/base/collective_request.h"

// A connection between two ranks carries frames, each a head followed by bytes. A message is one
// frame or several. Frames are in host byte order; a machine with another order is refused when it
// connects.
//
// A message of up to 64 KiB is sent at once, and waits at the receiver if no operation needs it
// yet; the bytes of a rank that may wait there are limited. A larger message is sent when the
// receiver has memory for it: for a collective, once the receiver has started it; for a transfer,
// once there are both a send and a receive.

namespace atp {

struct Frame {
  enum class Kind : std::uint8_t {
    kData = 1,  // a part of a message
    kOffer,     // a message that waits until the receiver is ready
    kReady,     // the receiver is ready
    kCredit,    // `bytes` of messages that were sent at once have been taken
    kAsk,       // asks how far operation `number` has got (`part`: milliseconds left)
    kAnswer,    // the answer; `offset`: a Progress, with the numbers that it needs
    kFailure,   // the group is broken; the text says why
    kFarewell,  // this rank is done and leaves
    kWonder,    // asks which ranks hold up operation `number`
    kLate,      // the answer, or news for one who has asked: rank `part` does (`offset`: a Delay)
  };
  // kWaiting answers a question about a transfer: the rank has itself waited `total` milliseconds
  // for another, and in the end for rank `part`, which does not wait or does not answer.
  enum class Progress : std::uint8_t { kNotCalled, kUnderWay, kEnded, kWaiting };
  enum class Delay : std::uint8_t { kNobody, kNotCalled, kSilent };
  static constexpr std::uint32_t kMagic = 0x47505441;  // another one for every format

  std::uint32_t magic = kMagic;
  Kind kind = Kind::kData;
  Collective call = Collective::kBarrier;
  std::uint8_t type = 0;
  ElementReduction reduction = ElementReduction::kNone;
  std::uint32_t root = 0;    // or a transfer's tag, or a sum's rule (rule_of() in frame.cc)
  std::uint32_t part = 0;    // of an operation's messages between two ranks
  std::uint64_t number = 0;  // of the operation; of a transfer, among those that its sender began
  std::uint64_t total = 0;   // bytes of the operation's tensor, if the same on all ranks
  std::uint64_t bytes = 0;   // of the message
  std::uint64_t offset = 0;  // of this frame in it
  std::uint64_t length = 0;  // of what follows

  bool operator==(const Frame&) const = default;
};
static_assert(sizeof(Frame) == 56, "sent as it lies in memory, so without padding");

// The maximum bytes of a message in one frame; control frames wait for at most that much.
inline constexpr std::size_t kMaxFrameBytes = 1024 * 1024;
inline constexpr std::size_t kSentAtOnceBytes = 64 * 1024;
// The same for messages that a rank has from the start, in one frame. The receiver's permission
// would wait in the queue in front of its link, behind what others send to it already.
inline constexpr std::size_t kEagerBytes = 512 * 1024;
constexpr bool is_sent_at_once(std::size_t bytes, bool is_eager) {
  return bytes <= (is_eager ? kEagerBytes : kSentAtOnceBytes);
}
// How many bytes of one rank may wait at another.
inline constexpr std::size_t kMaxWaitingBytes = 2 * 1024 * 1024;
inline constexpr std::size_t kMaxTextBytes = 4096;

// The frame of an operation on this rank, without kind, part, bytes, offset and length, which are
// the message's.
Frame frame_of(const CollectiveRequest& request, std::uint64_t number);

// The names of ranks and types in error messages.
struct Wording {
  std::vector<std::size_t> ranks;                    // empty: by their numbers in this group
  std::string (*type_name)(std::uint8_t) = nullptr;  // null: by number

  std::string rank(std::size_t rank) const;
  std::string rank_list(const std::vector<std::size_t>& list) const;  // "ranks 1 and 3"
};

// "broadcast #17 from rank 0 (4,000 bytes of float32)": what a rank has called.
std::string describe(const Frame& frame, const Wording& wording);

// Whether both ranks have called the same operation.
bool match(const Frame& one, const Frame& other);

}  // namespace atp
