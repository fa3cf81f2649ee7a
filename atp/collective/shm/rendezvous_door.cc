#include "atp/collective/shm/rendezvous_door.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace atp {
namespace {

constexpr std::chrono::milliseconds kGuestPatience{2000};
constexpr std::size_t kMostGuests = 64;
constexpr std::chrono::milliseconds kRest{100};

void tell_one(const UnixLine& line, const std::string& text) {
  std::array<std::byte, 128> unread;  // would discard the text when the line is closed
  static_cast<void>(line.receive(unread, std::chrono::steady_clock::now()));
  static_cast<void>(line.say(text));
}

}  // namespace

Result<RendezvousDoor> RendezvousDoor::open(const std::string& name) {
  Result<UnixLine> listener = UnixLine::listen(name);
  if (!listener) return listener.error();
  return RendezvousDoor(std::move(listener).value());
}

void RendezvousDoor::add_lines(std::vector<const UnixLine*>& waited, Time now) const {
  for (const Guest& guest : guests_) waited.push_back(&guest.line);
  if (now >= rests_until_) waited.push_back(&listener_);
}

std::optional<UnixLine> RendezvousDoor::hear(std::size_t place, Time now) {
  if (place < guests_.size()) {
    const auto guest = guests_.begin() + static_cast<std::ptrdiff_t>(place);
    UnixLine line = std::move(guest->line);
    guests_.erase(guest);
    return line;
  }
  trouble_ = std::nullopt;
  Result<UnixLine> line = listener_.accept();
  if (!line) {
    trouble_ = line.error();
    rests_until_ = now + kRest;
  } else if (line.value().is_of_this_user()) {
    if (guests_.size() == kMostGuests) guests_.erase(guests_.begin());
    guests_.push_back({std::move(line).value(), now + kGuestPatience});
  }
  return std::nullopt;
}

RendezvousDoor::Time RendezvousDoor::at(Time now) const {
  const Time rested = now < rests_until_ ? rests_until_ : Time::max();
  return guests_.empty() ? rested : std::min(rested, guests_.front().until);
}

void RendezvousDoor::look(Time now) {
  std::erase_if(guests_, [&](const Guest& guest) { return now >= guest.until; });
}

// No more than can have called by now: others may call for as long as somebody answers.
void RendezvousDoor::tell(const std::string& text) {
  for (const Guest& guest : guests_) tell_one(guest.line, text);
  guests_.clear();
  const std::array waited{static_cast<const UnixLine*>(&listener_)};
  for (int told = 0; told <= UnixLine::kBacklog; ++told) {
    if (!UnixLine::first_ready(waited, std::chrono::steady_clock::now())) return;
    const Result<UnixLine> line = listener_.accept();
    if (!line) return;
    if (line.value().is_of_this_user()) tell_one(line.value(), text);
  }
}

}  // namespace atp
