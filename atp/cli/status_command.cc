#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "atp/cli/command.h"
#include "atp/cli/status_service.h"
#include "atp/cli/status_text.h"
#include "atp/cli/timed_stream.h"
#include "atp/config/plain_text.h"
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
constexpr std::size_t kLongestDocument = std::size_t{64} << 20;

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

std::string document_of(const std::string& address, const std::string& reply) {
  if (!reply.starts_with(kStatusGreeting)) {
    throw CommandError(fmt::format("what listens at {} is no atp switch or server", address));
  }
  if (!reply.starts_with(kStatusLine)) {
    const std::string line =
        made_plain(reply.substr(0, std::min<std::size_t>(reply.find('\n'), 40)));
    throw CommandError(
        fmt::format("{} tells its status in another version: it answered \"{}\", this program "
                    "knows \"{}\"; use "
                    "the atp of that host",
                    address, line, kStatusLine.substr(0, kStatusLine.size() - 1)));
  }
  return reply.substr(kStatusLine.size());
}

std::string ask(const std::string& address, const Endpoint& to) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  const Result<TcpSocket> connected = TcpSocket::connect_once(to, until);
  if (!connected) throw cannot_connect(address, connected.error().message);
  TimedStream stream(connected.value().fd(), kPatience);
  stream.write(kStatusLine);
  const std::optional<std::string> reply = stream.read_all(kLongestDocument);
  if (!reply || reply->empty()) throw no_answer(address, stream.timed_out());
  return document_of(address, *reply);
}

void run_status(const StatusOptions& options) {
  const Endpoint to = value_or_throw(resolve_endpoint(options.address));
  const std::string document = ask(options.address, to);
  try {
    const auto status = nlohmann::ordered_json::parse(document);
    fmt::print("{}", options.json ? status.dump(2) + "\n" : status_table(status));
  } catch (const nlohmann::json::exception&) {
    throw CommandError(
        fmt::format("the answer of {} cannot be read: it ended early, or is of "
                    "another version of atp",
                    options.address));
  }
}

}  // namespace

void add_status_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("status", "Ask a switch or a server what it knows: jobs, ranks, drops");
  command->footer(kExamples);
  const auto options = std::make_shared<StatusOptions>();
  command->add_option("address", options->address, "Where it listens")
      ->type_name("HOST:PORT")
      ->required();
  command->add_flag("--json", options->json, "As JSON (docs/status.md lists the keys)");
  command->callback([options] { run_status(*options); });
}

}  // namespace atp
