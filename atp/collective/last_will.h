#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "atp/core/worker/worker_api.h"
#include "atp/wire/endpoint.h"

// What a rank leaves behind, so that the others learn at once that its process has died. Nobody but
// the rank can leave its job: that takes the nonce of its socket and the port it has. So the rank
// writes its LEAVE into a file of a folder that whoever supervises it has made (ATP_WILLS); when
// the process has ended and the file is still there, the supervisor sends it, from the port that
// has become free, with the cause behind it (docs/protocol.md §2).

namespace atp {

struct Will {
  std::uint16_t port = 0;  // of the rank's socket
  Endpoint server;
  std::vector<std::uint8_t> leave;  // the packet

  // With its cause; false if it is no LEAVE.
  bool give_cause(std::string_view cause);
  bool operator==(const Will&) const = default;
};

// One line.
std::string text_of(const Will& will);
std::optional<Will> parse_will(std::string_view line);

// The will of one socket, from here to the end of this object.
class LastWill {
 public:
  // None if nobody supervises this process, or the folder is gone.
  LastWill(const WorkerConfig& config, std::uint16_t port);
  ~LastWill();
  LastWill(const LastWill&) = delete;
  LastWill& operator=(const LastWill&) = delete;

 private:
  std::string path_;  // empty: there is none
  pid_t owner_;       // a forked child is not
};

}  // namespace atp
