#include "atp/collective/ring/streams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include "atp/collective/ring/messages.h"
#include "atp/collective/testing/ring.h"
#include "atp/driver/tcp/tcp_socket.h"

// The streams of one rank; the test holds the other ends and sends and receives bytes in any
// pieces.

namespace atp {
namespace {

using testing::bytes_of_vector;
using ::testing::ElementsAre;
using testing::values_of;

struct Pair {
  Pair() {
    std::array<int, 2> fds{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()), 0);
    ours = TcpSocket(fds[0]);
    theirs = TcpSocket(fds[1]);
  }
  void give(ConstBytes bytes) const {
    EXPECT_EQ(send(theirs.fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  std::vector<std::byte> take() const {
    std::vector<std::byte> bytes(1 << 16);
    const ssize_t got = recv(theirs.fd(), bytes.data(), bytes.size(), 0);
    bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return bytes;
  }
  TcpSocket ours;
  TcpSocket theirs;
};

template <class T>
std::vector<std::byte> to_bytes(const OperationHeader& header, const std::vector<T>& values) {
  std::vector<std::byte> bytes(sizeof header + values.size() * sizeof(T));
  std::memcpy(bytes.data(), &header, sizeof header);
  if (!values.empty())
    std::memcpy(bytes.data() + sizeof header, values.data(), bytes.size() - sizeof header);
  return bytes;
}

// Rank 1 of 2 in an all-reduce of three values: it owns the last one, and rank 0 the first two.
struct SmallAllReduce {
  std::vector<double> values{10, 20, 30};
  RingRequest request = all_reduce_request(ElementType::kFloat64, bytes_of_vector(values), 2);
  OperationHeader header = make_header(request, 7);
  Schedule schedule = make_schedule(request, 1, 2, {});
};

TEST(Streams, sums_are_right_in_whatever_pieces_the_data_arrives) {
  for (std::size_t piece = 1; piece <= 56; ++piece) {
    SmallAllReduce sum;
    Pair pair;
    InStream in(sum.header, sum.schedule);
    alignas(8) std::array<std::byte, 64> stage;
    // Rank 0's partial sum of the last value, then the sums of the first two.
    const std::vector<std::byte> bytes = to_bytes<double>(sum.header, {3, 11, 22});
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      pair.give(ConstBytes(bytes).subspan(at, std::min(piece, bytes.size() - at)));
      while (!in.done() && in.receive(pair.ours.fd(), stage).end == Moved::End::kMore) {
        stage.fill(std::byte{0xee});  // others use it in between
      }
    }
    EXPECT_TRUE(in.done());
    EXPECT_THAT(sum.values, ElementsAre(11, 22, 33)) << "in pieces of " << piece;
  }
}

TEST(Streams, a_byte_goes_out_once_the_one_a_block_before_it_has_come_in) {
  SmallAllReduce sum;
  Pair pair;
  OutStream out(sum.header, sum.schedule);
  out.send(pair.ours.fd(), 0, 1000);
  EXPECT_EQ(pair.take(), to_bytes<double>(sum.header, {10, 20}));
  EXPECT_FALSE(out.can_send(0));
  EXPECT_TRUE(out.can_send(5));
  out.send(pair.ours.fd(), 5, 1000);
  EXPECT_EQ(pair.take().size(), 5U);
  out.send(pair.ours.fd(), 24, 1000);
  EXPECT_EQ(pair.take().size(), 3U);
  EXPECT_TRUE(out.done());
}

TEST(Streams, no_call_sends_more_than_its_limit) {
  SmallAllReduce sum;
  Pair pair;
  OutStream out(sum.header, sum.schedule);
  std::vector<std::byte> all;
  while (!out.done()) {
    EXPECT_LE(out.send(pair.ours.fd(), 24, 7).bytes, 7U);
    const std::vector<std::byte> bytes = pair.take();
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  EXPECT_EQ(all, to_bytes<double>(sum.header, {10, 20, 30}));
}

TEST(Streams, nothing_is_taken_of_another_operation) {
  SmallAllReduce sum;
  Pair pair;
  InStream in(sum.header, sum.schedule);
  alignas(8) std::array<std::byte, 64> stage;
  OperationHeader other = sum.header;
  other.number = 8;
  pair.give(to_bytes<double>(other, {3, 11, 22}));
  in.receive(pair.ours.fd(), stage);
  EXPECT_TRUE(in.mismatch());
  EXPECT_FALSE(in.done());
  EXPECT_THAT(sum.values, ElementsAre(10, 20, 30));
}

TEST(Streams, a_closed_connection_and_an_empty_one_are_told_apart) {
  SmallAllReduce sum;
  Pair pair;
  InStream in(sum.header, sum.schedule);
  alignas(8) std::array<std::byte, 64> stage;
  EXPECT_EQ(in.receive(pair.ours.fd(), stage).end, Moved::End::kBlocked);
  pair.theirs.close();
  EXPECT_EQ(in.receive(pair.ours.fd(), stage).end, Moved::End::kClosed);
  OutStream out(sum.header, sum.schedule);
  EXPECT_EQ(out.send(pair.ours.fd(), 0, 1000).end, Moved::End::kBroken);
}

TEST(MessageLine, arrive_in_order_whatever_pieces_they_come_in) {
  Pair sender;
  MessageLine line(sender.ours);
  line.send({Message::Kind::kAreYouThere, ""});
  line.send({Message::Kind::kFailure, std::string(5000, 'x')});
  const std::vector<std::byte> bytes = sender.take();
  for (const std::size_t piece : {1U, 3U, 1000U, 10'000U}) {
    Pair pair;
    MessageLine listener(pair.ours);
    std::vector<Message> heard;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      pair.give(ConstBytes(bytes).subspan(at, std::min(piece, bytes.size() - at)));
      for (Message& message : listener.receive()) heard.push_back(std::move(message));
    }
    ASSERT_EQ(heard.size(), 2U);
    EXPECT_EQ(heard[0].kind, Message::Kind::kAreYouThere);
    EXPECT_EQ(heard[1].text, std::string(4096, 'x'));  // no text is longer
  }
}

TEST(MessageLine, the_last_messages_are_received_before_the_end) {
  Pair pair;
  MessageLine line(pair.ours);
  const TcpSocket other(dup(pair.theirs.fd()));
  MessageLine(other).send({Message::Kind::kFarewell, ""});
  pair.theirs.close();
  EXPECT_FALSE(line.closed());
  EXPECT_EQ(line.receive().size(), 1U);
}

TEST(MessageLine, texts_contain_no_terminal_control_characters) {
  Pair sender;
  MessageLine(sender.ours).send({Message::Kind::kFailure, "\x1b[31mred\n\u009b\x7f"});
  Pair pair;
  pair.give(sender.take());
  MessageLine listener(pair.ours);
  const std::vector<Message> heard = listener.receive();
  ASSERT_EQ(heard.size(), 1U);
  EXPECT_EQ(heard[0].text, "?[31mred????");
}

TEST(MessageLine, nonsense_closes_the_line) {
  Pair pair;
  MessageLine line(pair.ours);
  pair.give(std::vector<std::byte>(16, std::byte{0xff}));
  EXPECT_TRUE(line.receive().empty());
  EXPECT_TRUE(line.closed());
}

}  // namespace
}  // namespace atp
