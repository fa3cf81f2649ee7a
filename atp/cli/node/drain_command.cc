#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "atp/cli/command/command.h"
#include "atp/cli/command/log.h"
#include "atp/cli/node/timed_stream.h"
#include "atp/cli/status/status_dialogue.h"
#include "atp/cli/status/status_table.h"
#include "atp/driver/tcp/tcp_socket.h"
#include "atp/driver/udp/address.h"

namespace atp {
namespace {

constexpr const char* kDrainExamples = R"(Examples:
  atp drain 127.0.0.1:5501
      have the switch on this machine take no new jobs, and end after its last one; return at once
  atp drain 10.0.0.9:5500 --wait 3600
      the same for a server, and wait up to an hour for it to end
  atp drain 10.0.0.1:5700-5703 10.0.0.9:5600-5603 --wait 3600
      all lanes of a switch and of a server
  sudo atp drain 127.0.0.1:5500 --wait 3600 && sudo systemctl restart atp-server@main
      update a server between jobs)";

using std::chrono::steady_clock;

constexpr std::chrono::seconds kQuestionPatience{5};     // per question
constexpr std::chrono::milliseconds kBetweenLooks{200};  // while waiting

struct DrainOptions {
  std::vector<std::string> addresses;
  std::optional<std::uint32_t> wait_s;
};

struct Reply {
  bool nobody_listens = false;
  std::string text;     // empty: none
  std::string problem;  // why there is none
};

Reply ask(const Endpoint& node, std::string_view line) {
  const Result<TcpSocket> socket =
      TcpSocket::connect_once(node, steady_clock::now() + kQuestionPatience);
  if (!socket) {
    const bool refused = socket.error().message == std::generic_category().message(ECONNREFUSED);
    return {.nobody_listens = refused,
            .problem = refused ? "nothing listens there" : socket.error().message};
  }
  TimedStream stream(socket.value().fd(), kQuestionPatience);
  stream.write(line);
  std::optional<std::string> reply = stream.read_all(kMaxStatusBytes);
  if (reply && !reply->empty()) return {.text = std::move(*reply)};
  if (stream.timed_out()) {
    return {.problem = fmt::format(
                "no answer for {} s: it is stopped or without file descriptors (its log "
                "says so), or not an atp switch or server",
                kQuestionPatience.count())};
  }
  return {.problem =
              "it closed the connection without an answer: it is not an atp switch or server "
              "of this release, or does not accept requests from this host (run `atp drain` "
              "on its own host, or start it with --drain-from)"};
}

// One switch or server, or one lane of it.
class DrainedNode {
 public:
  explicit DrainedNode(const Endpoint& endpoint)
      : endpoint_(endpoint), address_(to_string(endpoint)) {}

  // Asks it to drain. False, with a message, if it does not.
  bool begin() {
    const Reply reply = ask(endpoint_, kDrainLine);
    if (reply.text.empty()) {
      log_error("cannot drain {}: {}{}", address_, reply.problem,
                reply.nobody_listens ? " over TCP: it has ended, or runs with --no-status" : "");
      return false;
    }
    const Result<NodeStatus> status = read_node_status(address_, reply.text);
    if (!status) {
      log_error("{}", status.error().message);
      return false;
    }
    role_ = status.value().role;
    tell(jobs_in(status.value().jobs));
    return true;
  }

  // Whether it has ended. A node at its address that does not drain is its successor.
  bool has_ended() {
    const Reply reply = ask(endpoint_, kStatusLine);
    problem_ = reply.problem;
    bool ended = reply.nobody_listens;
    if (!reply.text.empty()) {
      const Result<NodeStatus> status = read_node_status(address_, reply.text);
      if (!status) {
        problem_ = status.error().message;
      } else if (status.value().draining) {
        tell(jobs_in(status.value().jobs));
      } else {
        ended = true;
      }
    }
    if (ended) print("ended");
    return ended;
  }

  std::string what_is_left() const {
    if (!problem_.empty()) return fmt::format("{} {}: {}", role_, address_, problem_);
    return fmt::format("{} {} is still {}", role_, address_, drain_text(jobs_.value_or(0)));
  }

 private:
  void tell(std::size_t jobs) {
    if (jobs_ == jobs) return;
    jobs_ = jobs;
    print(drain_text(jobs));
  }
  void print(const std::string& what) const {
    fmt::print("{} {}: {}\n", role_, address_, what);
    std::fflush(stdout);
  }

  Endpoint endpoint_;
  std::string address_;
  std::string role_;
  std::optional<std::size_t> jobs_;
  std::string problem_;  // of the last question
};

// A range of ports stands for one route of a single hop per port.
std::vector<DrainedNode> nodes_of(const std::vector<std::string>& addresses) {
  std::vector<DrainedNode> nodes;
  for (const std::string& address : addresses) {
    if (address.find_first_of(",;") != std::string::npos) {
      throw UsageError(fmt::format(
          "'{}' is not HOST:PORT or HOST:FIRST-LAST; put spaces between addresses", address));
    }
    for (const auto& way : value_or_throw(resolve_routes(address))) nodes.emplace_back(way.front());
  }
  return nodes;
}

void wait_for_end(std::vector<DrainedNode> nodes, std::uint32_t wait_s) {
  const auto until = steady_clock::now() + std::chrono::seconds(wait_s);
  for (;;) {
    std::erase_if(nodes, [](DrainedNode& node) { return node.has_ended(); });
    if (nodes.empty()) return;
    if (steady_clock::now() >= until) break;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  for (const DrainedNode& node : nodes) log_error("{}", node.what_is_left());
  throw CommandError(fmt::format(
      "waited {} s, and the drain is not over; wait longer, or end the rest with SIGTERM (a "
      "server's jobs fail, a switch's jobs go on)",
      wait_s));
}

void run_drain(const DrainOptions& options) {
  std::vector<DrainedNode> nodes = nodes_of(options.addresses);
  const std::size_t asked = nodes.size();
  std::erase_if(nodes, [](DrainedNode& node) { return !node.begin(); });
  const std::size_t failed = asked - nodes.size();
  if (options.wait_s) wait_for_end(std::move(nodes), *options.wait_s);
  if (failed > 0) throw CommandError(fmt::format("{} of {} nodes did not drain", failed, asked));
}

}  // namespace

void add_drain_command(const Command& program) {
  const Command command = program.add_command(
      "drain", "Make switches and servers take no new jobs, and end after their last one");
  command.footer(kDrainExamples);
  const auto options = std::make_shared<DrainOptions>();
  command
      .add_option("address", options->addresses,
                  "Addresses of nodes, as given to their --listen; with lanes HOST:FIRST-LAST")
      .type_name("HOST:PORT")
      .required();
  command
      .add_option("--wait", options->wait_s,
                  "Wait until they have ended, at most this many seconds (default: return at once)")
      .type_name("SEC")
      .in_range(0u, 10'000'000u);
  command.callback([options] { run_drain(*options); });
}

}  // namespace atp
