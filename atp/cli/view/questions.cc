#include "atp/cli/view/questions.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "atp/cli/status/status_dialogue.h"

namespace atp {
namespace {

constexpr std::size_t kMaxDocumentBytes = std::size_t{4} << 20;

bool would_block() { return errno == EAGAIN || errno == EINTR; }

}  // namespace

Questions::Questions(std::vector<Endpoint> nodes, std::chrono::milliseconds patience, Take take)
    : nodes_(std::move(nodes)),
      patience_(patience),
      take_(std::move(take)),
      talks_(nodes_.size()) {}

void Questions::ask() {
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    Talk& talk = talks_[node];
    if (talk.socket.is_open()) continue;
    Result<TcpSocket> socket = TcpSocket::begin_connect(nodes_[node]);
    if (!socket) {
      take_(node,
            {.presence = NodePresence::kDead, .problem = socket.error().message, .status = {}});
      continue;
    }
    talk = {.socket = std::move(socket).value(),
            .connected = false,
            .to_send = std::string(kStatusLine),
            .reply = {},
            .end = std::chrono::steady_clock::now() + patience_};
  }
}

bool Questions::under_way() const {
  return std::any_of(talks_.begin(), talks_.end(),
                     [](const Talk& talk) { return talk.socket.is_open(); });
}

void Questions::wait_for_answers(SteadyTime until, int stop_fd) {
  std::vector<pollfd> waiting;
  std::vector<std::size_t> waiting_nodes;
  while (under_way()) {
    const SteadyTime now = std::chrono::steady_clock::now();
    give_up_late(now);
    if (now >= until || !under_way()) return;
    waiting = {{stop_fd, POLLIN, 0}};
    waiting_nodes.clear();
    SteadyTime next = until;
    for (std::size_t node = 0; node < talks_.size(); ++node) {
      const Talk& talk = talks_[node];
      if (!talk.socket.is_open()) continue;
      const short events = talk.to_send.empty() ? POLLIN : POLLOUT;
      waiting.push_back({talk.socket.fd(), events, 0});
      waiting_nodes.push_back(node);
      next = std::min(next, talk.end);
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now).count();
    if (poll(waiting.data(), waiting.size(), static_cast<int>(std::max<long>(left, 0))) < 0)
      continue;
    if (waiting[0].revents != 0) return;
    for (std::size_t i = 0; i < waiting_nodes.size(); ++i) {
      if (waiting[i + 1].revents != 0) go_on(waiting_nodes[i]);
    }
  }
}

void Questions::wait(SteadyTime until, int stop_fd) {
  wait_for_answers(until, stop_fd);
  pollfd stop{stop_fd, POLLIN, 0};
  for (SteadyTime now; (now = std::chrono::steady_clock::now()) < until;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
    if (poll(&stop, 1, static_cast<int>(left)) > 0) return;
  }
}

void Questions::go_on(std::size_t node) {
  if (!talks_[node].connected) {
    connect(node);
  } else if (!talks_[node].to_send.empty()) {
    send(node);
  } else {
    receive(node);
  }
}

void Questions::connect(std::size_t node) {
  const int error = talks_[node].socket.connect_error();
  if (error != 0) {
    fail(node, NodePresence::kDead, std::strerror(error));
    return;
  }
  talks_[node].connected = true;
  send(node);
}

void Questions::send(std::size_t node) {
  Talk& talk = talks_[node];
  const ssize_t sent =
      ::send(talk.socket.fd(), talk.to_send.data(), talk.to_send.size(), MSG_NOSIGNAL);
  if (sent > 0) {
    talk.to_send.erase(0, static_cast<std::size_t>(sent));
  } else if (!would_block()) {
    finish(node);
  }
}

void Questions::receive(std::size_t node) {
  Talk& talk = talks_[node];
  char bytes[65536];
  const ssize_t got = recv(talk.socket.fd(), bytes, sizeof bytes, 0);
  if (got > 0 && talk.reply.size() + static_cast<std::size_t>(got) <= kMaxDocumentBytes) {
    talk.reply.append(bytes, static_cast<std::size_t>(got));
  } else if (got > 0) {
    fail(node, NodePresence::kStrange, "its answer is too long: it is not an atp switch or server");
  } else if (got == 0 || !would_block()) {
    finish(node);
  }
}

void Questions::finish(std::size_t node) {
  if (talks_[node].reply.empty()) {
    fail(node, NodePresence::kRefuses,
         "closed the connection without an answer: it does not allow this host (start it with "
         "--status-from), or is not an atp switch or server");
    return;
  }
  Result<NodeStatus> status = read_node_status(to_string(nodes_[node]), talks_[node].reply);
  if (!status) {
    fail(node, NodePresence::kStrange, status.error().message);
    return;
  }
  talks_[node] = {};
  take_(node, {.presence = NodePresence::kUp, .problem = "", .status = std::move(status).value()});
}

void Questions::fail(std::size_t node, NodePresence presence, std::string problem) {
  talks_[node] = {};
  take_(node, {.presence = presence, .problem = std::move(problem), .status = {}});
}

void Questions::give_up_late(SteadyTime now) {
  const double seconds = std::chrono::duration<double>(patience_).count();
  for (std::size_t node = 0; node < talks_.size(); ++node) {
    const Talk& talk = talks_[node];
    if (!talk.socket.is_open() || now < talk.end) continue;
    fail(node, NodePresence::kSilent,
         talk.connected
             ? fmt::format("accepted the connection but sent nothing for {} s: it is stopped, or "
                           "has no file descriptor left",
                           seconds)
             : fmt::format("nothing came back for {} s: its host is down, or a firewall drops "
                           "TCP to this port",
                           seconds));
  }
}

}  // namespace atp
