#include "atp/collective/shm/rendezvous_leader.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "atp/base/text.h"

namespace atp {
namespace {

// More often than the others take rank 0's silence for a wait for rank 0 (LateRanks::kToTell).
constexpr std::chrono::milliseconds kBetweenNotes{250};

using Tenths = std::chrono::duration<std::int64_t, std::deci>;

}  // namespace

void RendezvousLeader::await_all() {
  awaited_.assign(lines_.size(), true);
  awaited_[0] = false;
  notice_.emplace(options_.warn);
}

void RendezvousLeader::has_come(std::size_t rank) {
  awaited_[rank] = false;
  if (const std::string whom = missing(); !whom.empty()) lines_[rank].note(whom);
}

// "rank 2", "ranks 1 and 3"; empty if rank 0 waits for none.
std::string RendezvousLeader::missing() const {
  RankSet ranks;
  for (const std::size_t rank : ranks_that(true)) ranks.insert(number_in_job(rank));
  return ranks.empty() ? "" : ranks_text(ranks);
}

std::vector<std::size_t> RendezvousLeader::ranks_that(bool are_awaited) const {
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 1; rank < awaited_.size(); ++rank) {
    if (awaited_[rank] == are_awaited) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<const UnixLine*> RendezvousLeader::lines_of(
    const std::vector<std::size_t>& ranks) const {
  std::vector<const UnixLine*> lines;
  lines.reserve(ranks.size());
  for (const std::size_t rank : ranks) lines.push_back(&lines_[rank]);
  return lines;
}

// Of these lines. Meanwhile says for whom rank 0 waits, also to those that wait with it.
Result<std::size_t> RendezvousLeader::first_ready(const std::vector<const UnixLine*>& waited,
                                                  Clock::time_point at) {
  notice_->look([this] {
    const bool is_known = door_->trouble().has_value();
    return waits_text(missing()) + (is_known ? ": " + door_->trouble()->message : "");
  });
  if (Clock::now() >= notes_at_) {
    for (const std::size_t rank : ranks_that(false)) lines_[rank].note(missing());
    notes_at_ = Clock::now() + kBetweenNotes;
  }
  return UnixLine::first_ready(
      waited, {std::min({until_, at, notice_->at(), notes_at_}), options_.interruption});
}

// Only rank 0 knows who is missing, so it gives up a little before the first of the others must.
void RendezvousLeader::heed(std::chrono::milliseconds patience) {
  const auto end = Clock::now() + patience;
  const auto until = end - std::min(patience / 8, std::chrono::milliseconds(500));
  if (until >= until_) return;
  until_ = until;
  timeout_ = std::min<std::chrono::milliseconds>(timeout_, std::chrono::ceil<Tenths>(end - begun_));
}

// A caller that says the wrong thing is turned away, and the rendezvous continues.
void RendezvousLeader::take(UnixLine line) {
  RendezvousHello hello;
  const auto got = line.receive(std::as_writable_bytes(std::span(&hello, 1)), Clock::now());
  if (!got || got.value() < sizeof hello.magic) return;
  if (hello.magic != RendezvousHello::kMagic) {
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
    has_come(hello.rank);
    check_numbers(hello);
    heed(std::chrono::milliseconds(hello.patience_ms));
  }
}

// Waits for the end of a rank (which says nothing while it waits for the segment), a word from a
// guest, or a call.
Status RendezvousLeader::hear_next() {
  const std::vector<std::size_t> ranks = ranks_that(false);
  std::vector<const UnixLine*> waited = lines_of(ranks);
  auto now = Clock::now();
  door_->add_lines(waited, now);
  const auto ready = first_ready(waited, door_->at(now));
  now = Clock::now();
  if (!ready) {
    if (const auto why = why_interrupted(options_.interruption)) return Error{*why};
  } else if (ready.value() >= ranks.size()) {
    if (auto line = door_->hear(ready.value() - ranks.size(), now)) take(*std::move(line));
  } else if (now < until_) {  // later, its own time is up
    return lost(rank_text(ranks[ready.value()]), "its process has ended");
  }
  door_->look(now);
  return ok_status();
}

// Why the time is up.
Error RendezvousLeader::incomplete() const {
  if (other_numbers_) return *other_numbers_;
  if (door_->trouble()) return has_no_socket(*door_->trouble());
  return {missing() + " did not contact " + rank_text(0) + " on this host within " +
          seconds_text(timeout_) +
          ": have all ranks been started, on this host and in the same network namespace?"};
}

Status RendezvousLeader::gather() {
  Result<RendezvousDoor> door = RendezvousDoor::open(name());
  if (!door) return has_no_socket(door.error());
  door_.emplace(std::move(door).value());
  await_all();
  while (!missing().empty()) {
    if (Clock::now() >= until_) return incomplete();
    Status heard = hear_next();
    if (!heard) return heard;
  }
  if (other_numbers_) return *other_numbers_;
  return ok_status();
}

void RendezvousLeader::check_numbers(const RendezvousHello& hello) {
  RendezvousHello own;
  own.set_numbers(options_.numbers);
  if (hello.numbers == own.numbers) return;
  other_numbers_ = Error{rank_text(hello.rank) + " uses " + std::string(hello.numbers_text()) +
                         ", " + rank_text(0) + " uses " + options_.numbers +
                         "; start all ranks with the same ATP_SCALE, ATP_WIRE and ATP_EXACT, or "
                         "options scale, wire and exact"};
}

Result<HostPlace> RendezvousLeader::make() const {
  Result<Segment> segment = Segment::create(shape());
  if (!segment) return segment.error();
  return take_place(std::move(segment).value());
}

// Why a rank cannot have the segment; empty if all have it. An error: a rank is gone.
Result<std::string> RendezvousLeader::hand_out(const Result<HostPlace>& place) {
  std::string why_not = place ? "" : rank_text(0) + ": " + place.error().message;
  for (std::size_t rank = 1; rank < lines_.size(); ++rank) {
    static_cast<void>(lines_[rank].pass(place ? place.value().segment.descriptor() : -1));
  }
  // Read every answer, even after a rank is lost: closing a line with an unread answer would
  // discard the message that the other side is about to get.
  std::optional<Error> gone;
  await_all();
  while (!missing().empty()) {
    const std::vector<std::size_t> ranks = ranks_that(true);
    const auto ready = first_ready(lines_of(ranks), until_);
    if (!ready && Clock::now() < until_ && !why_interrupted(options_.interruption)) continue;
    if (!ready) return gone ? *gone : lost(missing(), ready.error().message);
    const std::size_t rank = ranks[ready.value()];
    const Result<std::string> answer = lines_[rank].hear(kLongestText, Clock::now());
    has_come(rank);
    if (!answer) {
      if (!gone) gone = lost(rank_text(rank), answer.error().message);
    } else if (!answer.value().empty() && why_not.empty()) {
      why_not = rank_text(rank) + ": " + answer.value();
    }
  }
  if (gone) return *gone;
  return why_not;
}

void RendezvousLeader::tell_all(const std::string& text) {
  for (UnixLine& line : lines_) {
    if (line.is_open()) static_cast<void>(line.say(text));
  }
}

Result<HostRendezvousOutcome> RendezvousLeader::lead() {
  const Status gathered = gather();
  if (!gathered) {
    tell_all(gathered.error().message);
    lines_.clear();  // gives the door their descriptors
    if (door_) door_->tell(gathered.error().message);
    return gathered.error();
  }
  Result<HostPlace> place = make();
  const Result<std::string> why_not = hand_out(place);
  tell_all(why_not ? "" : why_not.error().message);
  if (!why_not) return why_not.error();
  tell_all(why_not.value());
  HostRendezvousOutcome outcome{.place = std::nullopt, .why_not = why_not.value()};
  if (outcome.why_not.empty()) outcome.place.emplace(std::move(place).value());
  return outcome;
}

}  // namespace atp
