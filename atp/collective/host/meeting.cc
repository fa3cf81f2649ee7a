// Both sides of the meeting: rank 0 collects the others and hands out the segment; they call it.
#include "atp/collective/host/meeting.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "atp/base/text.h"
#include "atp/base/time.h"
#include "atp/collective/host/unix_line.h"
#include "atp/collective/waits/wait_notice.h"

namespace atp {
namespace {

using Clock = std::chrono::steady_clock;

// The first message of a rank that calls; in host byte order, since both are on one machine.
struct Hello {
  static constexpr std::uint32_t kMagic = 0x41545036;  // identifies this version of the segment
  std::uint32_t magic = kMagic;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;
  std::uint32_t patience_ms = 0;  // how long it will wait from now on
  std::array<char, 64> numbers{};

  std::string_view numbers_text() const {
    return {numbers.data(), strnlen(numbers.data(), numbers.size())};
  }
};

void set_text(std::array<char, 64>& to, std::string_view text) {
  std::copy_n(text.begin(), std::min(text.size(), to.size()), to.begin());
}

// Later messages are texts; an empty one means success.
constexpr std::size_t kLongestText = 1000;
// How long to wait for a caller that says nothing.
constexpr std::chrono::milliseconds kPatience{2000};
constexpr std::chrono::milliseconds kBetweenCalls{5};

Rank number_in_job(const HostMeetingOptions& options, std::size_t rank) {
  const bool is_named = options.of_several && rank < options.of_several->ranks.size();
  return static_cast<Rank>(is_named ? options.of_several->ranks[rank] : rank);
}

std::string name_of(const HostMeetingOptions& options) {
  const std::string name = "atp-" + std::to_string(geteuid()) + "-" +
                           std::to_string(options.job.job) + "-" +
                           std::to_string(options.job.incarnation);
  return options.of_several ? name + "-" + std::to_string(options.of_several->number) : name;
}

SegmentShape shape_of(const HostMeetingOptions& options) {
  return options.of_several
             ? SegmentShape::of_several_hosts(options.world_size, options.of_several->most_ranks)
             : SegmentShape::of_one_host(options.world_size);
}

// A caller that has not said yet who it is. However many there are, and whatever they do, they do
// not hold up the others: they are heard side by side, and the oldest makes room.
struct Guest {
  UnixLine line;
  Clock::time_point until;
};
constexpr std::size_t kMostGuests = 64;

class Meeting {
 public:
  explicit Meeting(const HostMeetingOptions& options)
      : options_(options),
        begun_(Clock::now()),
        until_(begun_ + bounded_timeout(options.timeout)),
        lines_(options.world_size),
        notice_(options.warn) {}

  Result<HostMeetingOutcome> lead();
  Result<HostMeetingOutcome> follow();

 private:
  Status gather();
  void check_numbers(const Hello& hello);
  void take(UnixLine line);
  std::string missing() const;
  Status hear_next();
  Status let_in();
  void tell_callers(const std::string& text);
  Result<HostPlace> make() const;
  Result<HostPlace> take_place(Segment segment) const;
  Result<std::string> hand_out(const Result<HostPlace>& place);
  void tell_all(const std::string& text);
  Error lost(std::size_t rank, const std::string& why) const;
  Error has_no_socket(const Error& why) const;
  std::string rank_text(std::size_t rank) const {
    return "rank " + std::to_string(number_in_job(options_, rank));
  }
  Result<UnixLine> call();
  std::string waits_text(const std::string& whom) const {
    return rank_text(options_.rank) + " waits for " + whom + " to meet the ranks of this host";
  }
  std::uint32_t milliseconds_left() const;
  std::chrono::milliseconds patience() const {
    return std::chrono::ceil<std::chrono::duration<std::int64_t, std::deci>>(until_ - begun_);
  }

  const HostMeetingOptions options_;
  const Clock::time_point begun_;
  Clock::time_point until_;
  // At rank 0:
  UnixLine listener_;
  std::vector<Guest> guests_;    // oldest first
  std::vector<UnixLine> lines_;  // to each of the others that has said who it is
  std::optional<Error> other_numbers_;
  WaitNotice notice_;
};

// Or what has ended the wait for its words.
Error Meeting::lost(std::size_t rank, const std::string& why) const {
  if (const auto interruption = why_interrupted(options_.interruption)) return {*interruption};
  return {rank_text(options_.rank) + " has lost " + rank_text(rank) +
          " while the ranks of this host were meeting: " + why};
}

// An error for the whole job: without a socket this rank cannot tell the others to use the route.
Error Meeting::has_no_socket(const Error& why) const {
  return {rank_text(options_.rank) + " cannot meet the other ranks of this host: " + why.message +
          "; fix that, or start all ranks with ATP_HOST_MEMORY=0 and a route"};
}

// "rank 2", "ranks 1 and 3"; empty if all have called.
std::string Meeting::missing() const {
  RankSet ranks;
  for (std::size_t rank = 1; rank < lines_.size(); ++rank) {
    if (!lines_[rank].is_open()) ranks.insert(number_in_job(options_, rank));
  }
  return ranks.empty() ? "" : ranks_text(ranks);
}

// A caller that says the wrong thing is turned away, and the meeting continues.
void Meeting::take(UnixLine line) {
  Hello hello;
  const auto got = line.receive(std::as_writable_bytes(std::span(&hello, 1)), Clock::now());
  if (!got || got.value() < sizeof hello.magic) return;
  if (hello.magic != Hello::kMagic) {
    static_cast<void>(line.say(rank_text(0) +
                               " runs a different version of atp: use the same one for all ranks"));
  } else if (got.value() != sizeof hello) {
    return;
  } else if (hello.world_size != options_.world_size || hello.rank == 0 ||
             hello.rank >= lines_.size()) {
    static_cast<void>(line.say(rank_text(hello.rank) + " says that this host has " +
                               std::to_string(hello.world_size) + " ranks of the job, " +
                               rank_text(0) + " says " + std::to_string(options_.world_size) +
                               ": start all ranks with the same number of ranks"));
  } else if (lines_[hello.rank].is_open()) {
    static_cast<void>(line.say(rank_text(hello.rank) + " of this job is taken by another process"));
  } else {
    lines_[hello.rank] = std::move(line);
    check_numbers(hello);
    // Only rank 0 knows which ranks are missing, so it must report that before the first rank gives
    // up.
    until_ = std::min(until_, Clock::now() + std::chrono::milliseconds(hello.patience_ms));
  }
}

// Waits for a word from a guest, the end of a rank (which says nothing while it waits for the
// segment), or a call: in this order, so that callers cannot keep guests from being heard.
Status Meeting::hear_next() {
  std::vector<const UnixLine*> waited;
  std::vector<std::size_t> ranks;
  waited.reserve(guests_.size() + lines_.size() + 1);
  for (const Guest& guest : guests_) waited.push_back(&guest.line);
  for (std::size_t rank = 1; rank < lines_.size(); ++rank) {
    if (!lines_[rank].is_open()) continue;
    waited.push_back(&lines_[rank]);
    ranks.push_back(rank);
  }
  waited.push_back(&listener_);
  notice_.look([this] { return waits_text(missing()); });
  auto until = std::min(until_, notice_.at());
  if (!guests_.empty()) until = std::min(until, guests_.front().until);
  const auto ready = UnixLine::first_ready(waited, {until, options_.interruption});
  if (!ready && Clock::now() < until) return ready.error();
  if (ready && ready.value() < guests_.size()) {
    const auto guest = guests_.begin() + static_cast<std::ptrdiff_t>(ready.value());
    UnixLine line = std::move(guest->line);
    guests_.erase(guest);
    take(std::move(line));
  } else if (ready && ready.value() < waited.size() - 1) {
    return lost(ranks[ready.value() - guests_.size()], "its process has ended");
  } else if (ready) {
    return let_in();
  }
  std::erase_if(guests_, [](const Guest& guest) { return Clock::now() >= guest.until; });
  return ok_status();
}

Status Meeting::let_in() {
  Result<UnixLine> line = listener_.accept();
  if (!line) return has_no_socket(line.error());
  if (!line.value().is_of_this_user()) return ok_status();
  if (guests_.size() == kMostGuests) guests_.erase(guests_.begin());
  guests_.push_back({std::move(line).value(), Clock::now() + kPatience});
  return ok_status();
}

Status Meeting::gather() {
  Result<UnixLine> listener = UnixLine::listen(name_of(options_));
  if (!listener) return has_no_socket(listener.error());
  listener_ = std::move(listener).value();
  while (!missing().empty()) {
    Status heard = hear_next();
    if (!heard) return heard;
    if (Clock::now() < until_ || missing().empty()) continue;
    if (other_numbers_) return *other_numbers_;
    return Error{missing() + " did not contact " + rank_text(0) + " on this host within " +
                 seconds_text(patience()) +
                 ": have all ranks been started, on this host and in the same network "
                 "namespace?"};
  }
  if (other_numbers_) return *other_numbers_;
  return ok_status();
}

void Meeting::check_numbers(const Hello& hello) {
  Hello own;
  set_text(own.numbers, options_.numbers);
  if (hello.numbers == own.numbers) return;
  other_numbers_ = Error{rank_text(hello.rank) + " uses " + std::string(hello.numbers_text()) +
                         ", " + rank_text(0) + " uses " + options_.numbers +
                         "; start all ranks with the same ATP_SCALE, ATP_WIRE and ATP_EXACT, or "
                         "options scale, wire and exact"};
}

Result<HostPlace> Meeting::make() const {
  Result<Segment> segment = Segment::create(shape_of(options_));
  if (!segment) return segment.error();
  return take_place(std::move(segment).value());
}

// Registers this process in the segment, before any rank starts.
Result<HostPlace> Meeting::take_place(Segment segment) const {
  Result<Presence> presence = Presence::of(segment.descriptor(), options_.rank);
  if (!presence) return presence.error();
  segment.board_of(options_.rank).process.store(static_cast<std::uint32_t>(getpid()));
  return HostPlace{std::move(segment), std::move(presence).value()};
}

// Why a rank cannot have the segment; empty if all have it. An error: a rank is gone.
Result<std::string> Meeting::hand_out(const Result<HostPlace>& place) {
  std::string why_not = place ? "" : rank_text(0) + ": " + place.error().message;
  for (std::size_t rank = 1; rank < lines_.size(); ++rank) {
    static_cast<void>(lines_[rank].pass(place ? place.value().segment.descriptor() : -1));
  }
  // Read every answer, even after a rank is lost: closing a line with an unread answer would
  // discard the message that the other side is about to get.
  std::optional<Error> gone;
  for (std::size_t rank = 1; rank < lines_.size(); ++rank) {
    const Result<std::string> answer =
        lines_[rank].hear(kLongestText, {until_, options_.interruption});
    if (!answer) {
      if (!gone) gone = lost(rank, answer.error().message);
    } else if (!answer.value().empty() && why_not.empty()) {
      why_not = rank_text(rank) + ": " + answer.value();
    }
  }
  if (gone) return *gone;
  return why_not;
}

void Meeting::tell_all(const std::string& text) {
  for (UnixLine& line : lines_) {
    if (line.is_open()) static_cast<void>(line.say(text));
  }
}

// Those that nobody has heard yet. Lines that are not needed any more give their descriptors.
void Meeting::tell_callers(const std::string& text) {
  lines_.clear();
  const auto tell = [&](const UnixLine& line) {
    std::array<std::byte, sizeof(Hello)> unread;  // would discard the text when the line is closed
    static_cast<void>(line.receive(unread, Clock::now()));
    static_cast<void>(line.say(text));
  };
  for (const Guest& guest : guests_) tell(guest.line);
  guests_.clear();
  const std::array waited{static_cast<const UnixLine*>(&listener_)};
  while (UnixLine::first_ready(waited, Clock::now())) {
    const Result<UnixLine> line = listener_.accept();
    if (!line) return;
    tell(line.value());
  }
}

Result<HostMeetingOutcome> Meeting::lead() {
  const Status gathered = gather();
  if (!gathered) {
    tell_all(gathered.error().message);
    tell_callers(gathered.error().message);
    return gathered.error();
  }
  Result<HostPlace> place = make();
  const Result<std::string> why_not = hand_out(place);
  tell_all(why_not ? "" : why_not.error().message);
  if (!why_not) return why_not.error();
  tell_all(why_not.value());
  HostMeetingOutcome outcome{.place = std::nullopt, .why_not = why_not.value()};
  if (outcome.why_not.empty()) outcome.place.emplace(std::move(place).value());
  return outcome;
}

// Calls rank 0 until it answers.
Result<UnixLine> Meeting::call() {
  Result<UnixLine> line = UnixLine::make();
  if (!line) return has_no_socket(line.error());
  for (;;) {
    const Status called = line.value().call(name_of(options_), until_);
    if (called) return line;
    if (const auto why = why_interrupted(options_.interruption)) return Error{*why};
    notice_.look([&] { return waits_text(rank_text(0)); });
    if (Clock::now() >= until_) {
      return Error{rank_text(options_.rank) + " could not contact " + rank_text(0) +
                   " on this host within " + seconds_text(options_.timeout) + " (" +
                   called.error().message + "): has " + rank_text(0) +
                   " been started, on this host and in the same network namespace?"};
    }
    std::this_thread::sleep_for(kBetweenCalls);
  }
}

std::uint32_t Meeting::milliseconds_left() const {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until_ - Clock::now());
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(left.count(), 0, std::numeric_limits<std::uint32_t>::max()));
}

Result<HostMeetingOutcome> Meeting::follow() {
  Result<UnixLine> line = call();
  if (!line) return line.error();
  UnixLine& leader = line.value();
  if (!leader.is_of_this_user()) {
    return Error{"a process of another user listens where " + rank_text(0) +
                 " should (abstract Unix socket " + name_of(options_) +
                 "): end it, or give the job another number (ATP_JOB)"};
  }
  Hello hello{.rank = static_cast<std::uint32_t>(options_.rank),
              .world_size = static_cast<std::uint32_t>(options_.world_size),
              .patience_ms = milliseconds_left()};
  set_text(hello.numbers, options_.numbers);
  static_cast<void>(leader.send(std::as_bytes(std::span(&hello, 1))));
  const UnixLine::Patience patience{until_ + kPatience, options_.interruption};
  const Result<UnixLine::Passed> passed = leader.take(kLongestText, patience);
  if (!passed) return lost(0, passed.error().message);
  if (!passed.value().text.empty()) return Error{passed.value().text};
  HostMeetingOutcome outcome;
  // Matters only if rank 0 passed a descriptor: then the kernel has dropped it.
  std::string problem =
      "cannot receive the descriptor of the shared memory: raise the limit of open files (ulimit "
      "-n)";
  if (const int descriptor = passed.value().descriptor; descriptor >= 0) {
    Result<Segment> segment = Segment::open(descriptor, shape_of(options_));
    Result<HostPlace> place = segment ? take_place(std::move(segment).value()) : segment.error();
    problem = place ? "" : place.error().message;
    if (place) outcome.place.emplace(std::move(place).value());
  }
  static_cast<void>(leader.say(problem));
  const Result<std::string> failure = leader.hear(kLongestText, patience);
  if (failure && !failure.value().empty()) return Error{failure.value()};
  const Result<std::string> verdict = failure ? leader.hear(kLongestText, patience) : failure;
  if (!verdict) return lost(0, verdict.error().message);
  outcome.why_not = verdict.value();
  if (!outcome.why_not.empty()) outcome.place.reset();
  return outcome;
}

}  // namespace

Result<HostMeetingOutcome> meet_on_host(const HostMeetingOptions& options) {
  Meeting meeting(options);
  Result<HostMeetingOutcome> outcome = options.rank == 0 ? meeting.lead() : meeting.follow();
  // The segment, if any, is mapped and locked by now.
  if (outcome && outcome.value().place) outcome.value().place->segment.close_descriptor();
  return outcome;
}

}  // namespace atp
