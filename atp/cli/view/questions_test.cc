#include "atp/cli/view/questions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "atp/cli/status/status_dialogue.h"
#include "atp/driver/tcp/testing_accept.h"
#include "atp/driver/udp/address.h"

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kDocument =
    R"({"role": "switch", "listen": "a", "version": "0.1.0", "counters": {}, "jobs": []})";

// A listener that accepts a connection and replies with these bytes; without a reply, it keeps the
// connection and stays silent.
class Listener {
 public:
  explicit Listener(std::optional<std::string> reply)
      : socket_(TcpSocket::listen(resolve_endpoint("127.0.0.1:0").value()).value()) {
    if (!reply) return;  // the kernel accepts the connection
    thread_ = std::thread([this, reply = *reply] {
      const auto until = steady_clock::now() + std::chrono::seconds(5);
      const TcpSocket peer = accept_one(socket_, until);
      if (!peer.is_open()) return;
      std::byte line[13];
      (void)peer.receive_all(line, until);
      (void)peer.send_all(std::as_bytes(std::span(reply)), until);
    });
  }
  ~Listener() {
    if (thread_.joinable()) thread_.join();
  }
  Endpoint endpoint() const { return socket_.local().value(); }

 private:
  TcpSocket socket_;
  std::thread thread_;
};

Endpoint closed_port() {
  return TcpSocket::listen(resolve_endpoint("127.0.0.1:0").value()).value().local().value();
}

// The last answer of each node.
std::map<std::size_t, NodeAnswer> ask(const std::vector<Endpoint>& nodes, milliseconds patience) {
  std::map<std::size_t, NodeAnswer> answers;
  Questions questions(nodes, patience, [&](std::size_t node, NodeAnswer answer) {
    answers[node] = std::move(answer);
  });
  questions.ask();
  questions.wait_for_answers(steady_clock::now() + std::chrono::seconds(5));
  return answers;
}

TEST(Questions, ReportThePresenceOfEachNode) {
  struct Case {
    const char* name;
    std::optional<std::string> reply;
    NodePresence presence;
    const char* problem;
  };
  const Case cases[] = {
      {"a node", std::string(kStatusLine) + kDocument, NodePresence::kUp, ""},
      {"one that hides its status", "", NodePresence::kRefuses, "--status-from"},
      {"one that is stopped", std::nullopt, NodePresence::kSilent, "sent nothing for 0.2 s"},
      {"another program", "HTTP/1.1 400\r\n\r\n", NodePresence::kStrange,
       "is not an atp switch or server"},
      {"another version", "atp-status 7\n", NodePresence::kStrange, "atp-status 7"},
      {"an answer that is too long", std::string(kStatusLine) + std::string(5 << 20, ' '),
       NodePresence::kStrange, "too long"},
  };
  for (const Case& c : cases) {
    const Listener listener(c.reply);
    const auto answers = ask({listener.endpoint()}, milliseconds(c.reply ? 3000 : 200));
    ASSERT_EQ(answers.size(), 1u) << c.name;
    EXPECT_EQ(answers.at(0).presence, c.presence) << c.name;
    EXPECT_THAT(answers.at(0).problem, testing::HasSubstr(c.problem)) << c.name;
  }
  EXPECT_EQ(ask({closed_port()}, milliseconds(3000)).at(0).presence, NodePresence::kDead);
}

TEST(Questions, ASilentNodeHoldsUpNoOther) {
  const Listener silent(std::nullopt), node(std::string(kStatusLine) + kDocument);
  std::vector<std::size_t> order;
  Questions questions({silent.endpoint(), node.endpoint(), closed_port()}, milliseconds(60'000),
                      [&](std::size_t from, const NodeAnswer&) { order.push_back(from); });
  questions.ask();
  const auto begin = steady_clock::now();
  questions.wait_for_answers(begin + milliseconds(300));
  EXPECT_THAT(order, testing::UnorderedElementsAre(1u, 2u));
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(Questions, DoNotWaitOnceTheLastNodeIsGivenUp) {
  const Listener silent(std::nullopt);
  Questions questions({silent.endpoint()}, milliseconds(50), [](std::size_t, const NodeAnswer&) {});
  questions.ask();
  const auto begin = steady_clock::now();
  questions.wait_for_answers(begin + std::chrono::seconds(60));
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(30));
}

}  // namespace
}  // namespace atp
