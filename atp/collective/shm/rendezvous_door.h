#pragma once

#include <optional>
#include <string>
#include <vector>

#include "atp/base/result.h"
#include "atp/collective/shm/unix_line.h"

// Where the ranks of a host call their rank 0, which knows a caller only once it has said who it
// is. Any process of the host can call, as often as it likes, so:
//
// * Guests, which have said nothing yet, do not hold up the others: they are heard side by side,
//   the oldest makes room, and none stays for long. Those of other users are sent away unheard.
// * When the system cannot accept a call (no descriptor or memory is left), the door rests for a
//   moment, as an Acceptor of TCP connections does, and tries again.

namespace atp {

class RendezvousDoor {
 public:
  using Time = UnixLine::Time;

  static Result<RendezvousDoor> open(const std::string& name);

  // Appends the lines at which it waits. If the one at this place among them is ready, it hears it:
  // a guest, who then leaves by its line with a message to read, or a caller, who becomes a guest.
  void add_lines(std::vector<const UnixLine*>& waited, Time now) const;
  std::optional<UnixLine> hear(std::size_t place, Time now);
  // When it wants to look: a guest has been silent for too long, or its rest is over.
  Time at(Time now) const;
  void look(Time now);

  // Why it could not accept the last call.
  const std::optional<Error>& trouble() const { return trouble_; }

  // To the guests, and to those of this user who have called by now. Closes it to the guests.
  void tell(const std::string& text);

 private:
  struct Guest {
    UnixLine line;
    Time until;
  };
  explicit RendezvousDoor(UnixLine listener) : listener_(std::move(listener)) {}

  UnixLine listener_;
  std::vector<Guest> guests_;  // oldest first
  Time rests_until_{};
  std::optional<Error> trouble_;
};

}  // namespace atp
