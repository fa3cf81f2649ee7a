#include <fmt/core.h>

#include <memory>
#include <optional>
#include <string>

#include "atp/cli/command/command.h"
#include "atp/cli/node/timed_stream.h"
#include "atp/cli/status/status_dialogue.h"
#include "atp/driver/tcp/tcp_socket.h"
#include "atp/driver/udp/address.h"

namespace atp {
namespace {

constexpr const char* kStatusExamples = R"(Examples:
  atp status 127.0.0.1:5501
      show the jobs, ranks, collisions and drops of the switch on this machine
  atp status 10.0.0.9:5500 --json
      print the status of a server for programs (run it on that host, or start the server with
      --status-from and this host's network)
  ssh rack1 atp status 10.0.0.1:5501
      query a switch from its own host)";

struct StatusOptions {
  std::string address;
  bool json = false;
  double timeout_s = 2;  // to connect and to be answered
};

// Explains a missing answer and what to do about it.
CommandError no_answer(const StatusOptions& options, const TimedStream& stream) {
  if (stream.timed_out()) {
    return CommandError(fmt::format(
        "{} accepted the connection but sent {} within {:g} s: it is stopped, its process has no "
        "file descriptor left (its log says so), or it is not an atp switch or server",
        options.address, stream.received() ? "no complete answer" : "nothing", options.timeout_s));
  }
  return CommandError(fmt::format(
      "{} closed the connection without an answer: it is not an atp switch or server, it does "
      "not accept requests from this host (ask on its own host, or start it with "
      "--status-from), or too many others connect to it (its log says so)",
      options.address));
}

CommandError cannot_connect(const std::string& address, const std::string& problem) {
  return CommandError(fmt::format(
      "no status from {}: {} (an atp switch or server answers over TCP at its --listen address, "
      "unless it runs with --no-status)",
      address, problem));
}

std::string ask(const StatusOptions& options) {
  using std::chrono::milliseconds;
  using std::chrono::steady_clock;
  const Endpoint to = value_or_throw(resolve_endpoint(options.address));
  const auto until =
      steady_clock::now() + milliseconds(static_cast<std::int64_t>(options.timeout_s * 1000));
  const Result<TcpSocket> connected = TcpSocket::connect_once(to, until);
  if (!connected) throw cannot_connect(options.address, connected.error().message);
  TimedStream stream(connected.value().fd(),
                     std::chrono::duration_cast<milliseconds>(until - steady_clock::now()));
  stream.write(kStatusLine);
  const std::optional<std::string> reply = stream.read_all(kMaxStatusBytes);
  if (!reply || reply->empty()) throw no_answer(options, stream);
  return *reply;
}

void run_status(const StatusOptions& options) {
  const Result<std::string> answer = status_answer(options.address, ask(options), options.json);
  if (!answer) throw CommandError(answer.error().message);
  fmt::print("{}", answer.value());
}

}  // namespace

void add_status_command(const Command& program) {
  const Command command =
      program.add_command("status", "Show the jobs, ranks and drops of a switch or server");
  command.footer(kStatusExamples);
  const auto options = std::make_shared<StatusOptions>();
  command.add_option("address", options->address, "Address of the node, as given to its --listen")
      .type_name("HOST:PORT")
      .required();
  command.add_flag("--json", options->json, "Print JSON (docs/operate/status.md lists the keys)");
  command
      .add_option("--timeout", options->timeout_s,
                  "Seconds to wait for the answer, including the time to connect")
      .type_name("SEC")
      .number_between(0.1, 3600)
      .show_default();
  command.callback([options] { run_status(*options); });
}

}  // namespace atp
