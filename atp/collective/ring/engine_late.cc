// Finds out which rank holds up the ring, and says so while the wait lasts.
//
// In a ring without progress every rank waits for the one before it. Only the rank after the late
// one sees that this one has not begun the operation, and only a neighbour that it does not answer.
// They tell the others, around the ring.
#include <charconv>

#include "atp/collective/ring/engine.h"

namespace atp {
namespace {

using std::chrono::milliseconds;

// How long a neighbour may take to answer a probe before it is called silent.
constexpr milliseconds kAnswers{500};

}  // namespace

void RingEngine::note_moves(bool sent, bool received) {
  if (sent || received) note_progress();
  if (received) received_at_ = now_;
  // What goes out does not show that the rank before this one has resumed.
  const bool is_over = received || (sent && found_late_ && found_late_->rank == next_->rank);
  if (!is_over && !transfers_.empty()) return;
  found_late_.reset();
  if (!late_.ranks().empty()) late_.end(now_);
}

const RingEngine::Peer* RingEngine::without_answer() const {
  for (const Peer* peer : {before_.get(), next_.get()}) {
    if (peer->left || !peer->asked_at || peer->heard_at >= peer->unanswered_since) continue;
    if (now_ >= peer->unanswered_since + kAnswers) return peer;
  }
  return nullptr;
}

// What this rank can see for itself.
void RingEngine::find_late() {
  Transfer* receiving = transfers_.receiving();
  if (const Peer* silent = without_answer()) {
    found_late_ = {silent->rank, silent->links.name + " does not answer"};
  } else if (receiving != nullptr && !receiving->begun()) {
    found_late_ = {before_->rank,
                   before_->links.name + " has not called " + describe(receiving->header())};
  } else {
    return;
  }
  pass_on_late(found_late_->rank == next_->rank ? next_.get() : before_.get());
}

// To the neighbour on the other side of the one from which it is known, up to the late rank.
void RingEngine::pass_on_late(const Peer* from) {
  Peer& to = from == next_.get() ? *before_ : *next_;
  if (to.rank == found_late_->rank) return;
  to.line.send({Message::Kind::kLate, std::to_string(found_late_->rank) + " " + found_late_->text});
}

void RingEngine::hear_late(const Peer& from, const std::string& text) {
  std::size_t rank = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (error != std::errc() || rank >= options_.world_size || rank == options_.rank) return;
  const auto begin = std::min<std::size_t>(text.find(' '), text.size() - 1);
  found_late_ = {rank, text.substr(begin + 1)};
  pass_on_late(&from);
}

void RingEngine::report_late() {
  if (failure_ || transfers_.empty() || now_ < received_at_ + LateRanks::kToTell) return;
  if (now_ >= find_late_at_) {
    find_late();
    find_late_at_ = now_ + LateRanks::kToTell;
  }
  if (!found_late_) return;
  const std::size_t rank = found_late_->rank;
  const std::size_t number = rank < options_.names.size() ? options_.names[rank] : rank;
  if (number >= kMaxRanks) return;
  late_.observe(now_, RankSet::of(static_cast<Rank>(number)), received_at_,
                [this] { return found_late_->text; });
}

std::optional<WaitedForRanks> RingEngine::waited_for() const {
  if (failure_ || transfers_.empty()) return std::nullopt;
  return late_.waited_for(now_, transfers_.oldest()->text());
}

}  // namespace atp
