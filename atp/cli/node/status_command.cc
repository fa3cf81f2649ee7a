#include <fmt/core.h>

#include <memory>
#include <optional>
#include <string>

#include "atp/cli/command/command.h"
#include "atp/cli/node/status_dialogue.h"
#include "atp/cli/node/timed_stream.h"
#include "atp/driver/tcp/tcp_socket.h"
#include "atp/driver/udp/address.h"

namespace atp {
namespace {

constexpr const char* kExamples = R"(Examples:
  atp status 127.0.0.1:5501
      what the switch on this machine knows: jobs, ranks, collisions, drops
  atp status 10.0.0.9:5500 --json
      the same of a server, for programs (run it on that host, or start the server with
      --status-from and the network of this one)
  ssh rack1 atp status 10.0.0.1:5501)";

constexpr std::chrono::seconds kPatience{5};
constexpr std::size_t kMaxDocumentBytes = std::size_t{64} << 20;

struct StatusOptions {
  std::string address;
  bool json = false;
};

// Why there is no document, in the words of what to do about it.
CommandError no_answer(const std::string& address, bool timed_out) {
  if (timed_out) {
    return CommandError(
        fmt::format("{} took the connection and said nothing for {} s: it is no atp "
                    "switch or server, or it is stopped",
                    address, kPatience.count()));
  }
  return CommandError(fmt::format(
      "{} closed the connection without an answer: it is no atp switch or server, or takes no "
      "requests from this host (ask on its own host, or start it with --status-from)",
      address));
}

CommandError cannot_connect(const std::string& address, const std::string& problem) {
  return CommandError(fmt::format(
      "nothing at {} tells its status: {} (an atp switch or server answers at the address of its "
      "--listen, by TCP, unless it runs with --no-status)",
      address, problem));
}

std::string ask(const std::string& address, const Endpoint& to) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  const Result<TcpSocket> connected = TcpSocket::connect_once(to, until);
  if (!connected) throw cannot_connect(address, connected.error().message);
  TimedStream stream(connected.value().fd(), kPatience);
  stream.write(kStatusLine);
  const std::optional<std::string> reply = stream.read_all(kMaxDocumentBytes);
  if (!reply || reply->empty()) throw no_answer(address, stream.timed_out());
  return *reply;
}

void run_status(const StatusOptions& options) {
  const Endpoint to = value_or_throw(resolve_endpoint(options.address));
  const Result<std::string> answer =
      status_answer(options.address, ask(options.address, to), options.json);
  if (!answer) throw CommandError(answer.error().message);
  fmt::print("{}", answer.value());
}

}  // namespace

void add_status_command(const Command& program) {
  const Command command =
      program.add_command("status", "Ask a switch or a server what it knows: jobs, ranks, drops");
  command.footer(kExamples);
  const auto options = std::make_shared<StatusOptions>();
  command.add_option("address", options->address, "Where it listens")
      .type_name("HOST:PORT")
      .required();
  command.add_flag("--json", options->json, "As JSON (docs/status.md lists the keys)");
  command.callback([options] { run_status(*options); });
}

}  // namespace atp
