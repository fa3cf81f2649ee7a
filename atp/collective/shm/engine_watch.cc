// Finds which ranks an operation waits for and for how long, and makes all ranks name the same one.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>

#include "atp/base/text.h"
#include "atp/base/time.h"
#include "atp/collective/shm/engine.h"

namespace atp {
namespace {

using std::chrono::milliseconds;

// Longer than the leader takes to give up on the network.
constexpr milliseconds kForTheLeader{10'000};
// The leader's network knows better whom an overdue operation waits for, and gives up first.
constexpr milliseconds kForTheNetwork{4'000};
constexpr std::string_view kNobodyMissing =
    ", although no rank is known to be missing: does it need more time?";
constexpr milliseconds kToPrepare{500};
// How long the first rank that found a failure may take to write it down, unless it dies meanwhile.
constexpr std::chrono::seconds kToWrite{2};

// Stopped by a signal or a debugger. (Also false if nothing is known about the process here.)
bool is_stopped(std::uint32_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return false;
  const char state = text[name_end + 2];
  return state == 'T' || state == 't';
}

}  // namespace

std::size_t HostEngine::in_job(std::size_t rank) const {
  return options_.names.empty() ? rank : options_.names[rank];
}

milliseconds HostEngine::patience(const CollectiveRequest& request) const {
  const milliseconds own = request.timeout;
  return bounded_timeout(own.count() > 0 ? own : options_.operation_timeout);
}

bool HostEngine::has_failed_elsewhere() const {
  return place_.segment.board().failing.load() != HostBoard::kNotFailing;
}

void HostEngine::watch(Time now) {
  if (now >= std::min(look_at_, deadline())) look_around(now);
}

// What this rank had to prepare, another one may still be preparing; it knows best.
milliseconds HostEngine::grace() const {
  return std::min<milliseconds>(operations_.front().request().spent, kToPrepare);
}

const HostEngine::Entry& HostEngine::overdue() const {
  return *std::find_if(operations_.begin(), operations_.end(),
                       [this](const Entry& each) { return each.ends_by == ends_.get(); });
}

std::string HostEngine::too_late(Time now) const {
  if (now < ends_by()) return "no progress for " + seconds_text(patience());
  return overdue_text(patience(overdue().request()));
}

// For an operation that nobody holds up.
std::string HostEngine::progress_text(Time now) const {
  const Entry& oldest = operations_.front();
  const Entry& late = overdue();
  std::string text = ", although every rank makes progress: ";
  if (&late != &oldest) {
    return text + "it was still behind " + with_commas(late.turn - oldest.turn) +
           " earlier operations; give the group a longer timeout, or have fewer operations in "
           "flight";
  }
  const std::size_t done = pieces_.empty() ? oldest.written : pieces_.front().begin;
  const std::size_t all = std::max(oldest.asked.layout->values(), done);
  text += with_commas(done) + " of its " + with_commas(all) +
          (oldest.moves() ? " bytes are done" : " values are done");
  if (done > 0) {
    const auto took = now - (*late.ends_by - patience(late.request()));
    const std::chrono::duration<double> needs =
        took * (static_cast<double>(all) / static_cast<double>(done));
    text += ", so it needs about " + seconds_text(std::chrono::ceil<std::chrono::seconds>(needs));
  }
  return text + "; give the group a longer timeout, or use smaller tensors";
}

void HostEngine::look_around(Time now) {
  look_at_ = now + kBetweenLooks;
  if (uplink_ != nullptr) tell_followers();
  if (others_moved(now)) progress_at_ = now;
  const std::optional<Awaited> waits_for = awaited();
  const RankSet ranks = waits_for ? missing(*waits_for) : RankSet();
  note_late(now, ranks, waits_for);
  if (ranks.empty()) {
    if (now >= ends_by()) fail_late(too_late(now) + progress_text(now));
    return;
  }
  std::optional<std::string> gone;
  ranks.for_each([&](Rank rank) {
    if (!gone) gone = why_gone(rank, *waits_for);
  });
  if (gone) return fail(*gone);
  if (waits_for->phase == Phase::kReduced) return watch_leader(now, *waits_for);
  if (now < deadline() + grace()) return;
  // A rank that makes progress is not to blame, even if it is behind.
  const RankSet idle = without_progress(ranks, now);
  if (!idle.empty()) return fail_late(too_late(now) + ": " + blame(idle, *waits_for, now));
  if (now >= ends_by()) fail_late(too_late(now) + progress_text(now));
}

RankSet HostEngine::without_progress(const RankSet& ranks, Time now) const {
  const milliseconds long_enough = std::min<milliseconds>(LateRanks::kToTell, patience() / 2);
  RankSet idle;
  ranks.for_each([&](Rank rank) {
    if (!has_called_oldest(rank) || now >= seen_[rank].at + long_enough) idle.insert(rank);
  });
  return idle;
}

bool HostEngine::has_called_oldest(Rank rank) const {
  return place_.segment.board_of(rank).called.load() > operations_.front().turn;
}

// A rank is late once it has done nothing for a second, and nobody else has either; from then on
// until it goes on.
void HostEngine::note_late(Time now, const RankSet& ranks, const std::optional<Awaited>& awaited) {
  const bool in_network = awaited && awaited->phase == Phase::kReduced;
  if (in_network && options_.rank != kLeader) return note_network(now, *awaited);
  RankSet late;
  RankSet named;
  ranks.for_each([&](Rank rank) {
    const bool is_idle = now >= seen_[rank].at + LateRanks::kToTell;
    const bool is_late = late_here_.contains(rank) || now >= progress_at_ + LateRanks::kToTell;
    if (!is_idle || !is_late || in_network) return;  // the uplink says for whom it waits
    late.insert(rank);
    named.insert(static_cast<Rank>(in_job(rank)));
  });
  late_here_ = late;
  late_.observe(now, named, progress_at_, [&] { return blame(late, *awaited, now); });
}

// Only the leader hears from the network for whom it waits.
void HostEngine::tell_followers() {
  const std::optional<WaitedForRanks> waits = uplink_->waited_for();
  RankSet ranks;
  if (waits) {
    for (const Rank rank : waits->ranks) ranks.insert(rank);
  }
  place_.segment.board().network_wait.write(ranks, waits ? waits->why : "");
}

// For whom the network waits, as the leader has reported; or for the leader itself, if it reports
// nothing.
std::optional<NetworkWait> HostEngine::network_wait(Time now, const Awaited& awaited) {
  std::optional<NetworkWait> wait = place_.segment.board().network_wait.read();
  if (wait && std::exchange(leader_.done, wait->count) != wait->count) leader_.at = now;
  const bool is_silent = now >= std::max(leader_.at, progress_at_) + LateRanks::kToTell;
  if (!is_silent && !is_stopped_leader()) return wait;
  return NetworkWait{.ranks = RankSet::of(static_cast<Rank>(in_job(kLeader))),
                     .why = blame(RankSet::of(kLeader), awaited, now)};
}

void HostEngine::note_network(Time now, const Awaited& awaited) {
  late_here_.clear();
  const bool is_late = !late_.ranks().empty() || now >= progress_at_ + LateRanks::kToTell;
  const auto wait = is_late ? network_wait(now, awaited) : std::nullopt;
  if (!wait) return;
  late_.observe(now, wait->ranks, progress_at_, [&] { return wait->why; });
  if (!wait->ranks.empty() || std::exchange(told_, wait->why) == wait->why) return;
  if (told_.empty()) return;
  const auto waited = std::chrono::floor<std::chrono::seconds>(now - progress_at_);
  late_.add_line("waiting for " + seconds_text(waited) + ": " + told_);
}

// The leader reports why nothing returns before the others give up, unless it is stopped.
void HostEngine::watch_leader(Time now, const Awaited& awaited) {
  if (options_.rank == kLeader) {
    if (now - kForTheNetwork < ends_by()) return;
    const std::optional<WaitedForRanks> waits = uplink_->waited_for();
    return fail_late(too_late(now) + (waits ? ": " + waits->why : std::string(kNobodyMissing)));
  }
  if (now < deadline()) return;
  if (now < deadline() + (is_stopped_leader() ? milliseconds(0) : kForTheLeader)) return;
  const auto wait = network_wait(now, awaited);
  fail_late(too_late(now) + ": " +
            (wait && !wait->why.empty() ? wait->why : blame(RankSet::of(kLeader), awaited, now)));
}

bool HostEngine::is_stopped_leader() const {
  return is_stopped(place_.segment.board_of(kLeader).process.load());
}

// Whether a rank has progressed since the last call. (One that just calls more operations makes no
// progress.)
bool HostEngine::others_moved(Time now) {
  bool moved = false;
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    const std::uint64_t done = done_by(rank);
    if (std::exchange(seen_[rank].done, done) == done) continue;
    seen_[rank].at = now;
    moved = true;
  }
  return moved;
}

std::uint64_t HostEngine::done_by(std::size_t rank) const {
  const HostBoard::RankBoard& board = place_.segment.board_of(rank);
  return board.written.load() + board.scanned.load() + board.summed.load() + board.taken.load();
}

std::optional<HostEngine::Awaited> HostEngine::awaited() {
  if (taken_ < written_ && is_of_several_hosts()) return awaited_of_several_hosts();
  if (taken_ < written_) {
    if (!is_through(Phase::kWritten, taken_)) return Awaited{Phase::kWritten, taken_ + 1};
    if (!is_through(Phase::kSummed, taken_)) return Awaited{Phase::kSummed, taken_ + 1};
    return std::nullopt;
  }
  const std::size_t slots = place_.segment.slots();
  if (written_ < slots || is_through(Phase::kTaken, written_ - slots)) return std::nullopt;
  return Awaited{Phase::kTaken, written_ - slots + 1};
}

// Checks ranks of this host first, over all pieces: the network may wait for a piece after the
// oldest.
std::optional<HostEngine::Awaited> HostEngine::awaited_of_several_hosts() {
  for (std::uint64_t number = taken_; number < written_; ++number) {
    if (const auto phase = awaited_here(piece(number), number)) return Awaited{*phase, number + 1};
  }
  if (is_through(Phase::kReduced, taken_)) return std::nullopt;
  return Awaited{Phase::kReduced, taken_ + 1};
}

std::optional<HostEngine::Phase> HostEngine::awaited_here(const Piece& piece,
                                                          std::uint64_t number) const {
  if (!is_through(Phase::kWritten, number)) return Phase::kWritten;
  if (piece.in_blocks && !is_through(Phase::kScanned, number)) return Phase::kScanned;
  if (piece.in_blocks && !is_through(Phase::kAgreed, number)) return std::nullopt;
  return is_through(Phase::kSummed, number) ? std::nullopt : std::optional(Phase::kSummed);
}

bool HostEngine::is_missing(Rank rank, const Awaited& awaited) const {
  // A piece that the network returns must still be taken by all, and before that summed by all.
  if (awaited.phase == Phase::kReduced) return !is_through(awaited.phase, awaited.pieces - 1);
  return count_in(place_.segment.board_of(rank), awaited.phase).load() < awaited.pieces;
}

RankSet HostEngine::missing(const Awaited& awaited) const {
  RankSet missing;
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    // What this rank has not done yet, it does as soon as it can.
    if (rank == options_.rank && awaited.phase != Phase::kReduced) continue;
    if (is_missing(static_cast<Rank>(rank), awaited)) missing.insert(static_cast<Rank>(rank));
  }
  return missing;
}

// Nothing if the rank is alive, or did its part before it ended: since it was found missing, it may
// have completed the operation and left in good order.
std::optional<std::string> HostEngine::why_gone(Rank rank, const Awaited& awaited) const {
  std::optional<std::string> why;
  if (place_.segment.board_of(rank).state.load() == HostBoard::State::kLeft) {
    why = name_of(rank) + " has left the job";
  } else if (rank != options_.rank && !place_.presence.is_there(rank)) {
    why = lost_text(rank);
  }
  return is_missing(rank, awaited) ? why : std::nullopt;
}

std::string HostEngine::name_of(Rank rank) const {
  const std::uint32_t process = place_.segment.board_of(rank).process.load();
  return "rank " + std::to_string(in_job(rank)) + " (process " + std::to_string(process) + ")";
}

std::string HostEngine::lost_text(Rank rank) const {
  return name_of(rank) + " is lost: its process has ended";
}

std::string HostEngine::blame(const RankSet& ranks, const Awaited& awaited, Time now) const {
  const Entry& oldest = operations_.front();
  std::string text;
  ranks.for_each([&](Rank rank) {
    const HostBoard::RankBoard& board = place_.segment.board_of(rank);
    const bool has_called = awaited.phase != Phase::kWritten || has_called_oldest(rank);
    text += (text.empty() ? "" : ", ") + name_of(rank);
    if (is_stopped(board.process.load())) {
      text += " is stopped";
    } else if (has_called) {
      text += now < ends_by() ? " makes no progress" : " has not done its part";
    } else {
      text += " has not called " + options_.describe(oldest.header);
    }
  });
  return text;
}

void HostEngine::look_for_failure() {
  if (failure_) return;
  if (has_failed_elsewhere()) return fail_as_told();
  const HostBoard::RankBoard& leader = place_.segment.board_of(kLeader);
  if (leader.state.load() == HostBoard::State::kLeft) {
    fail(name_of(kLeader) + " has left the job");
  } else if (options_.rank != kLeader && !place_.presence.is_there(kLeader)) {
    fail(lost_text(kLeader));
  }
}

void HostEngine::leave(const std::string& why) {
  if (!failure_ && !operations_.empty()) {
    fail("rank " + std::to_string(in_job(options_.rank)) + " has left the job: " + why,
         FailureKind::kNone);
  }
  own_board().state.store(HostBoard::State::kLeft);
  place_.segment.signal();
}

// The first rank to fail writes the text that all use.
void HostEngine::fail(const std::string& why, FailureKind kind) {
  HostBoard& board = place_.segment.board();
  std::uint32_t not_yet = HostBoard::kNotFailing;
  if (!board.failing.compare_exchange_strong(not_yet, HostBoard::being_told_by(options_.rank))) {
    return fail_as_told();
  }
  const std::size_t length = std::min(why.size(), board.failure.size() - 1);
  std::memcpy(board.failure.data(), why.data(), length);
  board.failure[length] = '\0';
  board.ended_before_failure.store(operations_.empty() ? called_ : operations_.front().turn);
  board.failing.store(HostBoard::kFailed);
  place_.segment.signal();
  fail_all(why, kind);
}

void HostEngine::fail_as_told() {
  const HostBoard& board = place_.segment.board();
  const Time until = std::chrono::steady_clock::now() + kToWrite;
  for (;;) {
    const std::uint32_t failing = board.failing.load();
    if (failing == HostBoard::kFailed) break;
    const Rank teller = HostBoard::teller_of(failing);
    if (!place_.presence.is_there(teller)) return fail_all(lost_text(teller), FailureKind::kBroken);
    if (std::chrono::steady_clock::now() >= until) {
      return fail_all(name_of(teller) + " has found a failure but not reported it",
                      FailureKind::kBroken);
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
  take_what_the_teller_has();
  const auto end = std::find(board.failure.begin(), board.failure.end(), '\0');
  fail_all(std::string(board.failure.begin(), end), FailureKind::kReported);
}

// A rank may end, or fail, as soon as it has its result and before another rank has checked. The
// other's result is then complete too, since no rank has it before all shares are summed.
void HostEngine::take_what_the_teller_has() {
  const std::uint64_t ended = place_.segment.board().ended_before_failure.load();
  while (!operations_.empty() && operations_.front().turn < ended && can_take()) take();
}

void HostEngine::fail_all(const std::string& why, FailureKind kind) {
  failure_ = why;
  failure_kind_ = kind;
  counters_.add(HostCounter::kOperationsFailed, operations_.size());
  operations_.clear();
  ends_.clear();
  pieces_.clear();
  if (uplink_ != nullptr) uplink_->give_up(why);
}

}  // namespace atp
