#include "atp/cli/node/status_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "atp/base/rank_set.h"
#include "atp/base/text.h"
#include "atp/cli/command/command.h"
#include "atp/cli/command/text_table.h"
#include "atp/cli/node/status_service.h"
#include "atp/cli/node/timed_stream.h"
#include "atp/config/text/plain_text.h"
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
  const std::optional<std::string> reply = stream.read_all(kMaxDocumentBytes);
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

using nlohmann::json;

std::uint64_t number(const json& from, const char* key) {
  return from.at(key).get<std::uint64_t>();
}

// What came over the network must not command the terminal.
std::string word(const json& from, const char* key) {
  return made_plain(from.at(key).get<std::string>());
}

std::string counted(const json& from, const char* key) { return with_commas(number(from, key)); }

RankSet ranks(const json& job, const char* key) {
  RankSet set;
  for (const json& rank : job.at(key)) {
    const auto value = rank.get<std::uint64_t>();
    if (value < kMaxRanks) set.insert(static_cast<Rank>(value));
  }
  return set;
}

std::string share(const json& of) {
  // Floats go straight to the server, and where no way goes through a switch none can add.
  const std::uint64_t fragments = number(of, "fragments");
  const std::uint64_t all = fragments - std::min(fragments, number(of, "fragments_as_floats"));
  if (all == 0 || !of.at("has_switches").get<bool>()) return "-";
  const std::uint64_t in_switches = number(of, "fragments_summed_in_switches");
  return fmt::format("{:.1f} %",
                     100.0 * static_cast<double>(in_switches) / static_cast<double>(all));
}

std::string streams(const json& job) {
  const std::uint64_t first = number(job, "first_stream");
  const std::uint64_t last = first + number(job, "streams") - 1;
  return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
}

// "rank 3 missing, ranks 0 and 1 left".
std::string absentees(const json& job, const std::vector<const char*>& kinds) {
  std::string text;
  for (const char* kind : kinds) {
    const RankSet set = ranks(job, kind);
    if (set.empty()) continue;
    const std::string_view word = std::string_view(kind) == "waited_for" ? "late" : kind;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", ranks_text(set), word);
  }
  return text.empty() ? "-" : text;
}

std::string workers(const json& job) {
  return fmt::format("{} of {}", job.at("joined").size(), number(job, "world_size"));
}

std::string server_text(const json& status) {
  TextTable table({"job", "incarnation", "streams", "state", "workers", "fragments", "in switches",
                   "who is not there"});
  for (const json& job : status.at("jobs")) {
    table.add({fmt::format("{}", number(job, "job")), fmt::format("{}", number(job, "incarnation")),
               streams(job), word(job, "state"), workers(job), counted(job, "fragments"),
               share(job), absentees(job, {"missing", "detached", "waited_for", "lost", "left"})});
  }
  return fmt::format("  {} fragments complete, {} of them summed in switches, {} as floats\n",
                     counted(status, "fragments"), share(status),
                     counted(status, "fragments_as_floats")) +
         (table.empty() ? "  no jobs\n" : table.text());
}

std::string switch_text(const json& status) {
  TextTable table({"job", "incarnation", "streams", "workers here", "aggregators held", "parent",
                   "who is not there"});
  for (const json& job : status.at("jobs")) {
    table.add({fmt::format("{}", number(job, "job")), fmt::format("{}", number(job, "incarnation")),
               streams(job), workers(job), counted(job.at("aggregators"), "held"),
               word(job, "parent"), absentees(job, {"detached", "left"})});
  }
  const json& aggregators = status.at("aggregators");
  return fmt::format("  {} of {} aggregators held; {} sums completed, {} gradients collided\n",
                     counted(aggregators, "held"), counted(aggregators, "total"),
                     counted(status, "sums_completed"), counted(status, "collisions")) +
         (table.empty() ? "  no jobs\n" : table.text());
}

std::string drops_text(const json& status) {
  std::string text;
  for (const auto& [reason, count] : status.at("drops").items()) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", made_plain(reason),
                        with_commas(count.get<std::uint64_t>()));
  }
  return fmt::format("  dropped: {}\n", text.empty() ? "nothing" : text);
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

std::string status_table(const json& status) {
  const std::string role = word(status, "role");
  return fmt::format("{} {} (atp {})\n", role, word(status, "listen"), word(status, "version")) +
         (role == "server" ? server_text(status) : switch_text(status)) + drops_text(status);
}

}  // namespace atp
