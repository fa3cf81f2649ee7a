#include "atp/cli/doctor/ask_status.h"

#include <poll.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <string>

#include "atp/cli/node/timed_stream.h"
#include "atp/cli/status/status_dialogue.h"
#include "atp/driver/tcp/tcp_socket.h"

namespace atp {
namespace {

constexpr std::chrono::milliseconds kStatusPatience{1500};

// The node read its clock between these two times.
struct Asked {
  double from = 0;  // seconds since 1970, by this host's clock
  double until = 0;
};

ClockDifference difference_of(double theirs, const Asked& asked) {
  using Seconds = std::chrono::duration<double>;
  const auto rounded = [](double seconds) {
    return std::chrono::round<std::chrono::microseconds>(Seconds(seconds));
  };
  return {.ahead = rounded(theirs - (asked.from + asked.until) / 2),
          .uncertainty = rounded((asked.until - asked.from) / 2)};
}

void take_status(const std::string& reply, const Asked& asked, NodeFacts& facts) {
  const Result<NodeStatus> read = read_node_status(facts.address, reply);
  if (!read || read.value().wire_version == 0) return;
  const NodeStatus& status = read.value();
  facts.role = status.role;
  facts.version = status.version;
  facts.wire_version = static_cast<int>(status.wire_version);
  facts.tcp = TcpWord::kStatus;
  // 0 in the status of earlier releases.
  if (status.time_s != 0) facts.clock = difference_of(status.time_s, asked);
}

}  // namespace

void ask_status(const Endpoint& node, NodeFacts& facts) {
  facts.tcp = TcpWord::kNothing;
  const Result<TcpSocket> socket = TcpSocket::begin_connect(node);
  if (!socket) {  // an immediate error comes from this host itself
    facts.tcp = TcpWord::kRefused;
    return;
  }
  pollfd waits{socket.value().fd(), POLLOUT, 0};
  if (poll(&waits, 1, static_cast<int>(kStatusPatience.count())) <= 0) return;
  const int error = socket.value().connect_error();
  if (error == ECONNREFUSED) facts.tcp = TcpWord::kRefused;
  if (error != 0) return;
  TimedStream stream(socket.value().fd(), kStatusPatience);
  Asked asked{.from = seconds_since_1970()};
  stream.write(kStatusLine);
  const std::optional<std::string> reply = stream.read_all(kMaxStatusBytes);
  facts.tcp = stream.timed_out() ? TcpWord::kSilence : TcpWord::kClosed;
  asked.until = seconds_since_1970();
  if (reply && !reply->empty()) take_status(*reply, asked, facts);
}

}  // namespace atp
