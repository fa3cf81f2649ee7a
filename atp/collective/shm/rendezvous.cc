// The side of the ranks that call rank 0; for the other see RendezvousLeader.
#include "atp/collective/shm/rendezvous.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "atp/base/text.h"
#include "atp/collective/shm/rendezvous_leader.h"
#include "atp/collective/shm/rendezvous_side.h"
#include "atp/collective/shm/unix_line.h"
#include "atp/collective/waits/wait_notice.h"

namespace atp {
namespace {

constexpr std::chrono::milliseconds kBetweenCalls{5};

class Follower : private RendezvousSide {
 public:
  explicit Follower(const HostRendezvousOptions& options) : RendezvousSide(options) {}

  Result<HostRendezvousOutcome> follow();

 private:
  Result<UnixLine> call();
  Result<UnixLine::Passed> next_word(const UnixLine& leader);
  Error not_told(const Error& why) const;
  std::uint32_t milliseconds_left() const;

  std::string whom_;  // rank 0 waits for, as it noted last
};

// Calls rank 0 until it answers.
Result<UnixLine> Follower::call() {
  Result<UnixLine> line = UnixLine::make();
  if (!line) return has_no_socket(line.error());
  WaitNotice notice(options_.warn);
  for (;;) {
    const Status called = line.value().call(name(), until_);
    if (called) return line;
    if (const auto why = why_interrupted(options_.interruption)) return Error{*why};
    notice.look([&] { return waits_text(rank_text(0)); });
    if (Clock::now() >= until_) {
      return Error{rank_text(options_.rank) + " could not contact " + rank_text(0) +
                   " on this host within " + seconds_text(options_.timeout) + " (" +
                   called.error().message + "): has " + rank_text(0) +
                   " been started, on this host and in the same network namespace?"};
    }
    std::this_thread::sleep_for(kBetweenCalls);
  }
}

std::uint32_t Follower::milliseconds_left() const {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until_ - Clock::now());
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(left.count(), 0, std::numeric_limits<std::uint32_t>::max()));
}

// The next word of rank 0 that is no note. Meanwhile says for whom rank 0 waits, or for rank 0 if
// it notes nothing.
Result<UnixLine::Passed> Follower::next_word(const UnixLine& leader) {
  WaitNotice notice(options_.warn);
  std::optional<WaitNotice> silence(options_.warn);
  for (;;) {
    const auto look = whom_.empty() ? silence->at() : std::min(silence->at(), notice.at());
    const auto until = std::min(until_, look);
    Result<UnixLine::Passed> passed = leader.take(kLongestText, {until, options_.interruption});
    const auto now = Clock::now();
    if (const auto why = why_interrupted(options_.interruption); !passed && why) return Error{*why};
    if (!passed && now < until) return lost(rank_text(0), passed.error().message);
    if (!passed && now >= until_) return not_told(passed.error());
    if (passed) {
      whom_ = passed.value().is_note ? passed.value().text : "";
      if (!passed.value().is_note) return passed;
      if (silence->at() != Clock::time_point::max()) silence.emplace(options_.warn);
    }
    silence->look([&] {
      whom_.clear();
      return waits_text(rank_text(0));
    });
    if (!whom_.empty()) notice.look([&] { return waits_text(whom_); });
  }
}

// Its time is up.
Error Follower::not_told(const Error& why) const {
  if (whom_.empty()) return lost(rank_text(0), why.message);
  return {whom_ + " did not meet the ranks of this host within " + seconds_text(options_.timeout) +
          ", as " + rank_text(0) + " says"};
}

Result<HostRendezvousOutcome> Follower::follow() {
  Result<UnixLine> line = call();
  if (!line) return line.error();
  UnixLine& leader = line.value();
  if (!leader.is_of_this_user()) {
    return Error{"a process of another user listens where " + rank_text(0) +
                 " should (abstract Unix socket " + name() +
                 "): end it, or give the job another number (ATP_JOB)"};
  }
  RendezvousHello hello{.rank = static_cast<std::uint32_t>(options_.rank),
                        .world_size = static_cast<std::uint32_t>(options_.world_size),
                        .patience_ms = milliseconds_left()};
  hello.set_numbers(options_.numbers);
  static_cast<void>(leader.send(std::as_bytes(std::span(&hello, 1))));
  const Result<UnixLine::Passed> passed = next_word(leader);
  if (!passed) return passed.error();
  if (!passed.value().text.empty()) return Error{passed.value().text};
  HostRendezvousOutcome outcome;
  // Matters only if rank 0 passed a descriptor: then the kernel has dropped it.
  std::string problem =
      "cannot receive the descriptor of the shared memory: raise the limit of open files (ulimit "
      "-n)";
  if (const int descriptor = passed.value().descriptor; descriptor >= 0) {
    Result<Segment> segment = Segment::open(descriptor, shape());
    Result<HostPlace> place = segment ? take_place(std::move(segment).value()) : segment.error();
    problem = place ? "" : place.error().message;
    if (place) outcome.place.emplace(std::move(place).value());
  }
  static_cast<void>(leader.say(problem));
  const Result<UnixLine::Passed> failure = next_word(leader);
  if (!failure) return failure.error();
  if (!failure.value().text.empty()) return Error{failure.value().text};
  const Result<UnixLine::Passed> verdict = next_word(leader);
  if (!verdict) return verdict.error();
  outcome.why_not = verdict.value().text;
  if (!outcome.why_not.empty()) outcome.place.reset();
  return outcome;
}

}  // namespace

Result<HostRendezvousOutcome> meet_on_host(const HostRendezvousOptions& options) {
  Result<HostRendezvousOutcome> outcome =
      options.rank == 0 ? RendezvousLeader(options).lead() : Follower(options).follow();
  // The segment, if any, is mapped and locked by now.
  if (outcome && outcome.value().place) outcome.value().place->segment.close_descriptor();
  return outcome;
}

}  // namespace atp
