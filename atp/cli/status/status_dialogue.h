#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "atp/base/result.h"
#include "atp/cli/status/node_status.h"

// The dialogue of `atp status`, as bytes over any transport. The request is a line "atp-status 1";
// the reply is the same line, then one JSON document, then the end of the connection. A request in
// another version gets only the line, which names the node's version.
//
// The request "atp-drain 1" (`atp drain`) makes the node drain. It is answered in the same way,
// with the status or, if the client may not do that, with {"refused": "the reason"}.

namespace atp {

inline constexpr std::string_view kStatusGreeting = "atp-status ";
inline constexpr std::string_view kStatusLine = "atp-status 1\n";
inline constexpr std::string_view kDrainGreeting = "atp-drain ";
inline constexpr std::string_view kDrainLine = "atp-drain 1\n";
// The size of the largest reply that a client reads.
inline constexpr std::size_t kMaxStatusBytes = std::size_t{64} << 20;

// The node's side: one request as it arrives.
class StatusRequest {
 public:
  static constexpr std::size_t kMaxBytes = 64;

  enum class Kind : std::uint8_t {
    kIncomplete,
    kNone,               // not a request: close the connection
    kOtherVersion,       // reply with kStatusLine alone
    kOtherDrainVersion,  // reply with kDrainLine alone
    kStatus,
    kDrain,
  };
  // Judges all bytes so far, at most kMaxBytes. Bytes after the line are ignored.
  Kind take(std::string_view bytes);

 private:
  std::string line_;
};

// The client's side: formats a complete reply from `address`, for people or (`json`) for programs.
// If it is not a valid reply, the error says what to do.
Result<std::string> status_answer(const std::string& address, const std::string& reply, bool json);

// The status in a complete reply from `address` to either request. A node that has said this to a
// request to drain will drain, also if the status does not say so yet.
Result<NodeStatus> read_node_status(const std::string& address, const std::string& reply);

}  // namespace atp
