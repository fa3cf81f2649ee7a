#include "atp/cli/view/view_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "atp/cli/view/view_page.h"
#include "atp/driver/udp/address.h"

namespace atp {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class ViewServiceTest : public testing::Test {
 protected:
  std::string ask(const std::string& path, const std::string& host = "localhost",
                  const std::string& method = "GET") const {
    TcpSocket socket = send(path, host, method);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    std::string reply;
    std::byte byte{};
    while (socket.receive_all({&byte, 1}, until)) reply += static_cast<char>(byte);
    return reply;
  }

  TcpSocket send(const std::string& path, const std::string& host,
                 const std::string& method) const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    TcpSocket socket = TcpSocket::connect_once(service_->address(), until).value();
    const std::string request = method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
    EXPECT_TRUE(socket.send_all(std::as_bytes(std::span(request)), until));
    return socket;
  }

  std::unique_ptr<ViewService> service_ =
      ViewService::start(resolve_endpoint("127.0.0.1:0").value(), {}).value();
};

TEST_F(ViewServiceTest, ThePageMayRunOnlyItsOwnScriptAndContactNoOtherHost) {
  const std::string reply = ask("/");
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(reply, HasSubstr("Content-Security-Policy: default-src 'none'; script-src 'nonce-"));
  EXPECT_THAT(reply, HasSubstr("frame-ancestors 'none'"));
  EXPECT_THAT(reply, HasSubstr("X-Content-Type-Options: nosniff"));
  EXPECT_THAT(reply, Not(HasSubstr("unsafe")));
  EXPECT_THAT(reply, Not(HasSubstr("@NONCE@")));
  EXPECT_THAT(reply, Not(HasSubstr("Access-Control-Allow-Origin")));
  EXPECT_NE(ask("/"), reply) << "the nonce is used once";
}

TEST_F(ViewServiceTest, ThePageLoadsNothingFromElsewhere) {
  std::string page(kViewPage);
  // The XML namespace of SVG is a name, which no browser loads.
  for (std::size_t at; (at = page.find("http://www.w3.org/2000/svg")) != std::string::npos;) {
    page.erase(at, 26);
  }
  for (const char* word : {"http:", "https:", "src=", "@import", "url(", "innerHTML", "onclick="}) {
    EXPECT_THAT(page, Not(HasSubstr(word)));
  }
}

TEST_F(ViewServiceTest, RequestsForAnotherHostNameAreRefused) {
  for (const char* path : {"/", "/view.json", "/events"}) {
    const std::string reply = ask(path, "evil.example");
    EXPECT_THAT(reply, StartsWith("HTTP/1.1 403 ")) << path;
    EXPECT_THAT(reply, HasSubstr("--host-name")) << path;
  }
}

TEST_F(ViewServiceTest, OnlyGetIsAccepted) {
  for (const char* method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS"}) {
    EXPECT_THAT(ask("/view.json", "localhost", method), Not(StartsWith("HTTP/1.1 200 "))) << method;
  }
  EXPECT_THAT(ask("/other"), StartsWith("HTTP/1.1 404 "));
}

TEST_F(ViewServiceTest, TheDataAreThoseOfTheLatestView) {
  EXPECT_THAT(ask("/view.json"), HasSubstr("\r\n\r\nnull\n"));
  service_->show(R"({"name": "one"})");
  EXPECT_THAT(ask("/view.json"), HasSubstr(R"({"name": "one"})"));
}

TEST_F(ViewServiceTest, AStreamGetsEachNewView) {
  service_->show("1");
  TcpSocket stream = send("/events", "localhost", "GET");
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  std::string reply;
  const auto read_to = [&](const std::string& end) {
    std::byte byte{};
    while (!reply.ends_with(end) && stream.receive_all({&byte, 1}, until)) {
      reply += static_cast<char>(byte);
    }
    return reply.ends_with(end);
  };
  EXPECT_TRUE(read_to("data: 1\n\n"));
  EXPECT_THAT(reply, HasSubstr("text/event-stream"));
  EXPECT_THAT(reply, HasSubstr("retry: 2000\n")) << "browsers take turns, and not at once";
  service_->show("2");
  EXPECT_TRUE(read_to("data: 2\n\n"));
  service_->show("3");
  EXPECT_TRUE(read_to("data: 3\n\n"));
}

}  // namespace
}  // namespace atp
