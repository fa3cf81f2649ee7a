#include "atp/driver/http/http_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <mutex>

#include "atp/driver/udp/address.h"

namespace atp {
namespace {

class HttpServiceTest : public testing::Test {
 protected:
  // The whole reply, up to the end of the connection.
  std::string ask(const std::string& request) const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    TcpSocket socket = TcpSocket::connect_once(service_->address(), until).value();
    EXPECT_TRUE(socket.send_all(std::as_bytes(std::span(request)), until));
    std::string reply;
    std::byte byte{};
    while (socket.receive_all({&byte, 1}, until)) reply += static_cast<char>(byte);
    return reply;
  }

  std::unique_ptr<HttpService> service_ =
      HttpService::start(
          resolve_endpoint("127.0.0.1:0").value(),
          {.page =
               [](const std::string& path) {
                 return path == "/page"
                            ? std::optional<HttpPage>({"text/plain", std::string(20'000, 'x')})
                            : std::nullopt;
               },
           .names = {"x"},
           .tell = [](const std::string&) {}})
          .value();
};

TEST_F(HttpServiceTest, SendsTheWholePageAndThenCloses) {
  const std::string reply = ask("GET /page?a=b HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(reply.starts_with("HTTP/1.1 200 ")) << reply.substr(0, 200);
  EXPECT_NE(reply.find("Content-Type: text/plain\r\n"), std::string::npos);
  EXPECT_NE(reply.find("Content-Length: 20000\r\n"), std::string::npos);
  EXPECT_TRUE(reply.ends_with("\r\n\r\n" + std::string(20'000, 'x')));
}

TEST_F(HttpServiceTest, RefusesUnknownPathsAndMethods) {
  struct Case {
    const char* request;
    const char* answer;
  };
  const Case cases[] = {
      {"GET /other HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404 "},
      {"POST /page HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 501 "},
      {"GET /\r\n\r\n", "HTTP/1.1 400 "},
      {"GET /page HTTP/1.1\r\nHost: evil.example\r\n\r\n", "HTTP/1.1 403 "},
  };
  for (const Case& c : cases) {
    EXPECT_TRUE(ask(c.request).starts_with(c.answer)) << c.request << ask(c.request);
  }
}

TEST_F(HttpServiceTest, KeepsServingAfterAClientHangsUp) {
  for (int i = 0; i < 3; ++i) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    TcpSocket socket = TcpSocket::connect_once(service_->address(), until).value();
    const std::string request = "GET /page HTTP/1.1\r\n\r\n";
    EXPECT_TRUE(socket.send_all(std::as_bytes(std::span(request)), until));
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    setsockopt(socket.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  EXPECT_TRUE(ask("GET /page HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
}

class HttpStreamTest : public HttpServiceTest {
 protected:
  TcpSocket open(const std::string& request = "GET / HTTP/1.1\r\n\r\n") const {
    TcpSocket socket = TcpSocket::connect_once(streams_->address(), until_).value();
    EXPECT_TRUE(socket.send_all(std::as_bytes(std::span(request)), until_));
    return socket;
  }

  // Whether `text` arrives before the end.
  bool reads(const TcpSocket& socket, const std::string& text) const {
    std::string got;
    std::byte byte{};
    while (!got.ends_with(text) && socket.receive_all({&byte, 1}, until_)) {
      got += static_cast<char>(byte);
    }
    return got.ends_with(text);
  }

  std::vector<std::string> told() {
    const std::lock_guard lock(mutex_);
    return told_;
  }

  const SteadyTime until_ = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::mutex mutex_;
  std::vector<std::string> told_;
  std::unique_ptr<HttpService> streams_ =
      HttpService::start(resolve_endpoint("127.0.0.1:0").value(),
                         {.page =
                              [](const std::string& path) {
                                return HttpPage{.content_type = "text/plain",
                                                .body = "first",
                                                .stays_open = path == "/"};
                              },
                          .names = {},
                          .tell =
                              [this](const std::string& line) {
                                const std::lock_guard lock(mutex_);
                                told_.push_back(line);
                              }})
          .value();
};

TEST_F(HttpStreamTest, APageThatStaysOpenGetsEveryPublishedPart) {
  const TcpSocket one = open(), other = open();
  EXPECT_TRUE(reads(one, "first"));
  EXPECT_TRUE(reads(other, "first"));
  streams_->publish("second");
  EXPECT_TRUE(reads(one, "second"));
  EXPECT_TRUE(reads(other, "second"));
}

TEST_F(HttpStreamTest, ReadersMayLeaveAtAnyTime) {
  const TcpSocket stays = open();
  EXPECT_TRUE(reads(stays, "first"));
  for (int i = 0; i < 100; ++i) {
    const TcpSocket leaves = open();
    EXPECT_TRUE(i % 2 == 0 || reads(leaves, "first"));
    streams_->publish("next");
  }
  EXPECT_TRUE(reads(stays, "next"));
  EXPECT_TRUE(reads(open(), "first")) << "readers that have left still count";
}

// What strangers hold open, more of each than the service keeps.
struct Strangers {
  const char* name;
  const char* say;
  bool read;
  const char* news;
};

class HttpStrangersTest : public HttpStreamTest, public testing::WithParamInterface<Strangers> {};

TEST_P(HttpStrangersTest, keep_nobody_out) {
  std::vector<TcpSocket> strangers;
  for (int i = 0; i < 100; ++i) {
    strangers.push_back(open(GetParam().say));
    EXPECT_TRUE(!GetParam().read || reads(strangers.back(), "first"));
  }
  EXPECT_TRUE(reads(open("GET /page HTTP/1.1\r\n\r\n"), "first"));
  const TcpSocket stream = open();
  EXPECT_TRUE(reads(stream, "first"));
  streams_->publish("second");
  EXPECT_TRUE(reads(stream, "second"));
  ASSERT_EQ(told().size(), 1U) << "a line a minute";
  EXPECT_THAT(told()[0], testing::HasSubstr(GetParam().news));
}

INSTANTIATE_TEST_SUITE_P(that, HttpStrangersTest,
                         testing::Values(Strangers{"say_nothing", "", false, "more than 64 of "},
                                         Strangers{"say_half", "GET / HT", false,
                                                   "more than 64 of "},
                                         Strangers{"ask_and_stay", "GET /page HTTP/1.1\r\n\r\n",
                                                   true, "more than 64 of "},
                                         Strangers{"read_no_stream", "GET / HTTP/1.1\r\n\r\n",
                                                   false, "more than 32 streams of "},
                                         Strangers{"read_their_streams", "GET / HTTP/1.1\r\n\r\n",
                                                   true, "more than 32 streams of "}),
                         [](const auto& each) { return each.param.name; });

TEST_F(HttpStreamTest, TheOldestStreamEndsForANewOneAndTheOthersGoOn) {
  std::vector<TcpSocket> readers;
  for (int i = 0; i < 33; ++i) {
    readers.push_back(open());
    EXPECT_TRUE(reads(readers.back(), "first"));
  }
  EXPECT_FALSE(reads(readers.front(), "second"));
  streams_->publish("second");
  for (std::size_t i = 1; i < readers.size(); ++i) EXPECT_TRUE(reads(readers[i], "second")) << i;
}

TEST_F(HttpStreamTest, AReaderThatReadsNothingCostsNoMemoryAndDelaysNoOther) {
  const TcpSocket lazy = open(), stays = open();
  EXPECT_TRUE(reads(stays, "first"));
  std::vector<std::byte> much(std::size_t{1} << 20, std::byte{'x'});
  for (int i = 0; i < 50; ++i) {
    streams_->publish(std::string(reinterpret_cast<const char*>(much.data()), much.size()));
    EXPECT_TRUE(stays.receive_all(much, until_));
  }
}

TEST_F(HttpStreamTest, EndsWhileAClientReads) {
  const TcpSocket reader = open();
  EXPECT_TRUE(reads(reader, "first"));
  streams_.reset();
  EXPECT_FALSE(reads(reader, "never"));
}

TEST_F(HttpServiceTest, EndsWhileAClientIsConnected) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  const TcpSocket silent = TcpSocket::connect_once(service_->address(), until).value();
  service_.reset();
}

}  // namespace
}  // namespace atp
