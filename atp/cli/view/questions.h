#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "atp/cli/status/node_status.h"
#include "atp/driver/tcp/tcp_socket.h"
#include "atp/wire/endpoint.h"

// Asks many nodes for their status at the same time, each for a bounded time and as `atp status`
// does. A silent node does not delay the others.

namespace atp {

// Whether a node is there.
enum class NodePresence : std::uint8_t {
  kUnknown,  // the first query has not ended yet
  kUp,
  kDead,     // its host refuses the connection, or cannot be reached
  kSilent,   // accepted the connection, or nothing came back at all: stopped, or its host is down
  kRefuses,  // closed the connection: it refuses status queries from this host
  kStrange,  // answered something else
};

struct NodeAnswer {
  NodePresence presence = NodePresence::kUnknown;
  std::string problem;  // unless it is up
  NodeStatus status;    // if it is up
};

class Questions {
 public:
  using Take = std::function<void(std::size_t node, NodeAnswer answer)>;

  Questions(std::vector<Endpoint> nodes, std::chrono::milliseconds patience, Take take);

  // Starts to ask all nodes that are not being asked yet.
  void ask();
  // Returns when no query is in progress, at `until`, or when `stop_fd` is readable (-1: none).
  void wait_for_answers(SteadyTime until, int stop_fd = -1);
  // The same, but does not return early if no query is in progress.
  void wait(SteadyTime until, int stop_fd = -1);

 private:
  struct Talk {
    TcpSocket socket;  // open: a query is in progress
    bool connected = false;
    std::string to_send;
    std::string reply;
    SteadyTime end;
  };

  bool under_way() const;
  void go_on(std::size_t node);
  void connect(std::size_t node);
  void send(std::size_t node);
  void receive(std::size_t node);
  void finish(std::size_t node);
  void fail(std::size_t node, NodePresence presence, std::string problem);
  void give_up_late(SteadyTime now);

  std::vector<Endpoint> nodes_;
  std::chrono::milliseconds patience_;
  Take take_;
  std::vector<Talk> talks_;
};

}  // namespace atp
