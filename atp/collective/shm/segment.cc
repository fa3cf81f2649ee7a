// The sizes of pieces and slots, the memory itself, and how ranks sleep and wake one another.
#include "atp/collective/shm/segment.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <string>
#include <utility>

#include "atp/base/errno_text.h"
#include "atp/collective/shm/outgoing_sums.h"
#include "atp/wire/values.h"

namespace atp {
namespace {

// The maximum bytes of a row, so that it stays in a cache until the others read it.
constexpr std::size_t kMostOfARow = 256 * 1024;
constexpr std::size_t kLeastOfARow = 16 * 1024;
// The maximum bytes of a slot: (a part of) a machine's last-level cache.
constexpr std::size_t kMostOfASlot = 4 * 1024 * 1024;
constexpr std::size_t kPage = 4096;
// The maximum values of a piece with several hosts, where it spends time in the network: small
// enough that all slots, each with room for the most words, need little memory, and large enough
// that the ranks' work per piece is small compared with its time on a link. Eight slots hold about
// as much as a fast network has in flight.
constexpr std::size_t kMostPieceValues = 32 * 1024;
constexpr std::size_t kLeastPieceValues = 4 * 1024;
constexpr std::size_t kLongestValue = 4;

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "processes share them");
static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t), "one is a futex");

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

std::size_t rows_begin(std::size_t ranks) {
  return whole_pages(sizeof(HostBoard) + ranks * sizeof(HostBoard::RankBoard));
}

std::size_t bytes_of_row(std::size_t ranks) {
  return std::clamp(kMostOfASlot / ranks / kPage * kPage, kLeastOfARow, kMostOfARow);
}

std::size_t outgoing_bytes(const SegmentShape& shape) {
  return whole_pages(sizeof(std::int32_t) *
                     (shape.words + (shape.words > 0 ? shape.piece_values : 0)));
}

Error refused(const char* what) {
  return {std::string("cannot ") + what + ": " + errno_text(errno)};
}

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* timeout) {
  return syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

// Returns 0 or an errno.
int reserve(int descriptor, off_t bytes) {
  // Check the limit first: beyond it the kernel would send SIGXFSZ instead of an error.
  rlimit largest{};
  if (getrlimit(RLIMIT_FSIZE, &largest) == 0 && largest.rlim_cur < static_cast<rlim_t>(bytes)) {
    return EFBIG;
  }
  int why = EINTR;
  while (why == EINTR) why = posix_fallocate(descriptor, 0, bytes);
  return why;
}

// 32 bytes at any address.
using Wide = long long __attribute__((vector_size(32), aligned(1), may_alias));

}  // namespace

SegmentShape SegmentShape::of_one_host(std::size_t ranks) {
  return {.ranks = ranks, .slots = kSlotsOfOneHost, .row_bytes = bytes_of_row(ranks)};
}

SegmentShape SegmentShape::of_several_hosts(std::size_t ranks, std::size_t most_ranks) {
  const std::size_t values = std::clamp(kMostOfASlot / most_ranks / kPage * kPage / kLongestValue,
                                        kLeastPieceValues, kMostPieceValues);
  return {.ranks = ranks,
          .slots = kMostSlots,
          .row_bytes = kLongestValue * values,
          .piece_values = values,
          .words = OutgoingSums::most_words(values)};
}

std::size_t SegmentShape::bytes() const {
  return rows_begin(ranks) + slots * (ranks * row_bytes + outgoing_bytes(*this));
}

Segment::Segment(int descriptor, const SegmentShape& shape)
    : descriptor_(descriptor), shape_(shape) {}

Segment::Segment(Segment&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      shape_(other.shape_),
      memory_(std::exchange(other.memory_, {})),
      is_alias_(other.is_alias_) {}

Segment::~Segment() {
  if (!memory_.empty() && !is_alias_) munmap(memory_.data(), memory_.size());
  close_descriptor();
}

void Segment::close_descriptor() {
  if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
}

Segment Segment::alias() const {
  Segment other(-1, shape_);
  other.memory_ = memory_;
  other.is_alias_ = true;
  return other;
}

Result<Segment> Segment::create(const SegmentShape& shape) {
  Segment segment(memfd_create("atp", MFD_CLOEXEC | MFD_ALLOW_SEALING), shape);
  if (segment.descriptor_ < 0) return refused("create shared memory (memfd_create)");
  const auto bytes = static_cast<off_t>(shape.bytes());
  if (fchmod(segment.descriptor_, S_IRUSR | S_IWUSR) != 0) return refused("protect shared memory");
  // Reserve memory now, so that a lack of it is an error here and not a signal later.
  if (const int why = reserve(segment.descriptor_, bytes); why != 0) {
    errno = why;
    return refused(("reserve " + std::to_string(bytes) + " bytes of shared memory").c_str());
  }
  // Seal the size, so that no process can take memory away from another.
  if (fcntl(segment.descriptor_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return refused("seal shared memory");
  }
  const Status mapped = segment.map();
  if (!mapped) return mapped.error();
  return segment;
}

Result<Segment> Segment::open(int descriptor, const SegmentShape& shape) {
  Segment segment(descriptor, shape);
  struct stat found{};
  if (fstat(descriptor, &found) != 0) return refused("get the size of the shared memory");
  const auto expected = static_cast<off_t>(shape.bytes());
  if (found.st_size != expected) {
    return Error{"the shared memory has " + std::to_string(found.st_size) + " bytes, expected " +
                 std::to_string(expected) + ": run the same version of atp on all ranks"};
  }
  const Status mapped = segment.map();
  if (!mapped) return mapped.error();
  return segment;
}

Status Segment::map() {
  const std::size_t bytes = shape_.bytes();
  void* at =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor_, 0);
  if (at == MAP_FAILED) return refused("map shared memory");
  memory_ = {static_cast<std::byte*>(at), bytes};
  // A forked child is not part of the job.
  if (madvise(at, bytes, MADV_DONTFORK) != 0) {
    return refused("hide shared memory from forked children");
  }
  return ok_status();
}

HostBoard::RankBoard& Segment::board_of(std::size_t rank) const {
  auto* first = reinterpret_cast<HostBoard::RankBoard*>(memory_.data() + sizeof(HostBoard));
  return first[rank];
}

std::byte* Segment::row(std::size_t slot, std::size_t rank) const {
  return memory_.data() + rows_begin(ranks()) + (slot * ranks() + rank) * row_bytes();
}

std::int32_t* Segment::words(std::size_t slot) const {
  std::byte* behind_rows = row(slots(), 0);
  return reinterpret_cast<std::int32_t*>(behind_rows + slot * outgoing_bytes(shape_));
}

std::int32_t* Segment::exponents(std::size_t slot) const { return words(slot) + shape_.words; }

void Segment::signal() const {
  board().events.fetch_add(1);
  if (board().sleepers.load() > 0) futex(board().events, FUTEX_WAKE, INT_MAX, nullptr);
}

void Segment::sleep(std::uint32_t events, std::int64_t nanoseconds) const {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const timespec timeout{.tv_sec = nanoseconds / kSecond, .tv_nsec = nanoseconds % kSecond};
  board().sleepers.fetch_add(1);
  futex(board().events, FUTEX_WAIT, events, &timeout);
  board().sleepers.fetch_sub(1);
}

ATP_VALUE_LOOP void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t kStep = 4 * sizeof(Wide);
  std::size_t at = 0;
  // All loads come before the stores; otherwise the compiler would turn this into a memcpy().
  for (; at + kStep <= bytes; at += kStep) {
    const auto* source = reinterpret_cast<const Wide*>(from + at);
    auto* target = reinterpret_cast<Wide*>(to + at);
    const Wide first = source[0];
    const Wide second = source[1];
    const Wide third = source[2];
    const Wide fourth = source[3];
    target[0] = first;
    target[1] = second;
    target[2] = third;
    target[3] = fourth;
  }
  if (at < bytes) std::memcpy(to + at, from + at, bytes - at);
}

}  // namespace atp
