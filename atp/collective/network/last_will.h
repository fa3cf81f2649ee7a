#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "atp/core/worker/worker_api.h"
#include "atp/driver/keys/rank_key.h"
#include "atp/wire/endpoint.h"

// A file through which the other ranks learn at once that this rank's process has died. Only the
// rank itself can leave its job, since that takes its socket's nonce and port. So the rank writes
// its LEAVE into a folder that its supervisor has made (ATP_WILLS). If the process ends and the
// file is still there, the supervisor sends the LEAVE with a cause, from the port that is now free
// (docs/inside/protocol §2). The supervisor may have no key, so the will of a rank with a key
// includes the job's key; nobody else can read the folder.

namespace atp {

struct Will {
  std::uint16_t port = 0;  // of the rank's socket
  Endpoint server;
  std::vector<std::uint8_t> leave;  // the packet, without a tag
  std::optional<JobKeys> keys;      // with which the supervisor tags it once it has the cause

  // Adds a cause; false if the packet is not a LEAVE.
  bool give_cause(std::string_view cause);
  bool operator==(const Will&) const = default;
};

// One line.
std::string text_of(const Will& will);
std::optional<Will> parse_will(std::string_view line);

// The will of one socket, for the lifetime of this object.
class LastWill {
 public:
  // Writes none if nobody supervises this process or the folder is gone.
  LastWill(const WorkerConfig& config, std::uint16_t port, const std::optional<RankKey>& key = {});
  ~LastWill();
  LastWill(const LastWill&) = delete;
  LastWill& operator=(const LastWill&) = delete;

 private:
  std::string path_;  // empty: there is none
  pid_t owner_;       // a forked child must not remove the file
};

}  // namespace atp
