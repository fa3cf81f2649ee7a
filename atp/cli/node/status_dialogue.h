#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "atp/base/result.h"

// What `atp status` and a node say to each other, as bytes, whatever carries them: a line
// "atp-status 1" in; the same line, then one JSON document, out; and the end of the connection. A
// request in another version gets the line alone, which says what is spoken.

namespace atp {

inline constexpr std::string_view kStatusGreeting = "atp-status ";
inline constexpr std::string_view kStatusLine = "atp-status 1\n";

// The node's side: what has come in of one request.
class StatusRequest {
 public:
  static constexpr std::size_t kMaxBytes = 64;

  enum class Kind : std::uint8_t {
    kIncomplete,
    kNone,          // no request of ours: the connection is closed
    kOtherVersion,  // answered by the line alone
    kStatus,
  };
  // Of all bytes so far. Those behind the line are nobody's; `bytes` are at most kMaxBytes.
  Kind take(std::string_view bytes);

 private:
  std::string line_;
};

// The asker's side: what a reply of `address`, read to its end, says, for people or (`json`) for
// programs; the error says what to do where it is no such reply.
Result<std::string> status_answer(const std::string& address, const std::string& reply, bool json);

}  // namespace atp
