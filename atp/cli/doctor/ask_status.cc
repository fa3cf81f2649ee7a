#include "atp/cli/doctor/ask_status.h"

#include <poll.h>

#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "atp/cli/node/report.h"
#include "atp/cli/node/status_dialogue.h"
#include "atp/cli/node/timed_stream.h"
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

void take_document(const std::string& address, const std::string& reply, const Asked& asked,
                   NodeFacts& facts) {
  const Result<std::string> document = status_answer(address, reply, true);
  if (!document) return;
  const auto status = nlohmann::json::parse(document.value(), nullptr, false);
  if (!status.is_object()) return;
  const auto role = status.find("role");
  const auto version = status.find("version");
  const auto wire_version = status.find("wire_version");
  for (const auto& word : {role, version, wire_version}) {
    if (word == status.end()) return;
  }
  if (!role->is_string() || !version->is_string() || !wire_version->is_number_integer()) return;
  facts.role = role->get<std::string>();
  facts.version = version->get<std::string>();
  facts.wire_version = wire_version->get<int>();
  facts.tcp = TcpWord::kStatus;
  const auto time = status.find("time_s");  // absent in the status of earlier releases
  if (time != status.end() && time->is_number()) {
    facts.clock = difference_of(time->get<double>(), asked);
  }
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
  if (reply && !reply->empty()) take_document(facts.address, *reply, asked, facts);
}

}  // namespace atp
