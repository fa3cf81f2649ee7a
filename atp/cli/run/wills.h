#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "atp/base/time.h"
#include "atp/collective/last_will.h"
#include "atp/driver/udp/socket.h"

// Sends the wills of ranks whose processes have ended (atp/collective/last_will.h): the folder in
// which they write them, and the datagrams, each of which goes three times, as nobody acknowledges
// it here.

namespace atp {

class Wills {
 public:
  // A folder of its own, for as long as it lives. Without one no rank leaves a will, and the others
  // wait for its lease.
  Wills();
  ~Wills();
  Wills(const Wills&) = delete;
  Wills& operator=(const Wills&) = delete;

  // Where one rank writes its own; empty without a folder.
  std::string folder_of(std::string_view rank);
  // The rank's process has ended, which its ranks' peers hear in these words.
  void execute(Instant now, std::string_view rank, std::string_view cause);

  // When the next datagram is due; whoever waits calls send_due() then.
  Instant next() const;
  void send_due(Instant now);

 private:
  struct Letter {
    Will will;
    int left = 3;
    Instant at;
  };

  std::string folder_;
  std::vector<Letter> letters_;
};

}  // namespace atp
