#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "atp/base/time.h"
#include "atp/collective/network/last_will.h"
#include "atp/driver/udp/socket.h"

// Sends the wills of ranks whose processes have ended (atp/collective/network/last_will.h). It owns
// the folder into which ranks write them, and sends each datagram three times, because no
// acknowledgement comes back here.

namespace atp {

class Wills {
 public:
  // Creates a folder that exists for as long as this object. If that fails, ranks leave no wills,
  // and the others wait for the lease to end.
  Wills();
  ~Wills();
  Wills(const Wills&) = delete;
  Wills& operator=(const Wills&) = delete;

  // The folder for one rank's wills; empty without a folder.
  std::string folder_of(std::string_view rank);
  // Sends the wills of a rank whose process has ended; `cause` is what its peers report.
  void execute(Instant now, std::string_view rank, std::string_view cause);

  // When the next datagram is due; the caller then calls send_due().
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
