#include <gmock/gmock.h>

#include <string>

#include "atp/core/server/server_harness.h"
#include "atp/core/testing_drops.h"
#include "atp/core/testing_fates.h"

// What the server does with every type of message in every circumstance.

namespace atp {
namespace {

using P = ServerCounter;

// Ten fragments are complete, more than a window of eight; rank 0 has contributed to the next one.
constexpr std::uint64_t kPast = 1;
constexpr std::uint64_t kExpected = 10;
constexpr std::uint64_t kFuture = 18;

ServerHarness busy_server() {
  ServerHarness h = ServerHarness::behind_switch(3);
  for (std::uint64_t sequence = 0; sequence < kExpected; ++sequence) {
    h.gradient(kTestSwitch, {.sequence = sequence, .ranks = ranks({0, 1, 2})});
  }
  h.gradient(kTestSwitch, {.sequence = kExpected, .ranks = ranks({0})});
  h.advance(std::chrono::milliseconds(20));  // the pacer no longer withholds answers
  h.out.clear();
  return h;
}

void move(atp_header& h, When when) { h.sequence = when == When::kPast ? kPast : kFuture; }

using Bytes = std::vector<std::uint8_t>;

struct Message {
  const char* name;
  Bytes bytes;
  Fates<P> fates;
};

// A packet of this type without a body, which no server accepts.
Bytes of_type(PacketType type) {
  Bytes bytes = bytes_of({.sequence = kExpected, .ranks = ranks({1})});
  bytes[ATP_AT_TYPE] = static_cast<std::uint8_t>(type);
  if (type == PacketType::kParameter) return bytes;
  atp_store16(&bytes[ATP_AT_VALUE_COUNT], 0);
  bytes.resize(atp_body_offset(1));
  return bytes;
}

template <class Put, class Body>
Bytes control(Put put, PacketType type, const Body& body) {
  Outbox out;
  put(out, {.type = type, .job = kTestJob}, ranks({1}), body);
  out.send_to(kTestSwitch);
  const auto bytes = out.bytes_of(out.packets()[0]);
  return {bytes.begin(), bytes.end()};
}

Fates<P> always(P counter) {
  Fates<P> fates;
  fates.fill(counter);
  return fates;
}

std::vector<Message> messages() {
  const Join join = ServerHarness().join_of(1, 3, true).body;
  return {
      {"GRADIENT",
       bytes_of({.sequence = kExpected, .ranks = ranks({1})}),
       {P::kDropPastSequence, P::kGradientsReceived, P::kDropFutureSequence, P::kDropDuplicate,
        P::kDropUnknownJob, P::kDropForeignIncarnation, P::kDropWrongOperation,
        P::kDropWrongSource}},
      {"PARAMETER", of_type(PacketType::kParameter), always(P::kDropUnexpectedType)},
      {"FLUSH", of_type(PacketType::kFlush), always(P::kDropUnexpectedType)},
      {"NACK", of_type(PacketType::kNack), always(P::kDropUnexpectedType)},
      {"JOIN",
       control(put_join, PacketType::kJoin, join),
       {P::kJoinAcks, P::kJoinAcks, P::kJoinAcks, P::kJoinAcks, P::kJobsMade, P::kJobsMade,
        P::kJoinAcks, P::kJoinAcks /* the nonce is right: it has come by another path */}},
      {"JOIN_ACK", of_type(PacketType::kJoinAck), always(P::kDropUnexpectedType)},
      {"LEAVE",
       control(put_leave, PacketType::kLeave, Leave{nonce_of(1)}),
       {P::kStatusLeft, P::kStatusLeft, P::kStatusLeft, P::kStatusLeft,
        // A rank that is not a member counts as left.
        P::kStatusLeft, P::kStatusLeft, P::kStatusLeft, P::kDropWrongSource}},
      {"STATUS", of_type(PacketType::kStatus), always(P::kDropUnexpectedType)},
  };
}

void check(const Message& message, std::size_t circumstance) {
  const Circumstance& c = kCircumstances[circumstance];
  SCOPED_TRACE(std::string(message.name) + ", " + c.name);
  ServerHarness server = busy_server();
  const Bytes bytes = in_circumstance(c, message.bytes, move);
  const Endpoint from = c.from_stranger ? kStranger : kTestSwitch;
  for (int i = 1; i < c.times; ++i) server.receive(from, bytes);

  const P fate = message.fates[circumstance];
  const std::uint64_t before = server.count(fate);
  const std::uint64_t dropped_before = drops_in(server.server.counters());
  server.receive(from, bytes);
  EXPECT_GT(server.count(fate), before) << to_string(fate);
  const bool dropped = is_drop(to_string(fate));
  EXPECT_EQ(drops_in(server.server.counters()), dropped_before + (dropped ? 1 : 0));
  if (!dropped) return;
  // The sum is unchanged except for the first copy of a duplicate: {1, 2} of each rank.
  const bool has_1 = c.times > 1 && bytes[ATP_AT_TYPE] == ATP_GRADIENT;
  server.out.clear();
  if (!has_1) server.gradient(kTestSwitch, {.sequence = kExpected, .ranks = ranks({1})});
  server.gradient(kTestSwitch, {.sequence = kExpected, .ranks = ranks({2})});
  const auto sums = server.take(PacketType::kParameter);
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_THAT(sums[0].values(), testing::ElementsAre(3, 6));
}

TEST(ServerFates, OfEveryMessageInEveryCircumstance) {
  for (const Message& message : messages()) {
    for (std::size_t i = 0; i < std::size(kCircumstances); ++i) check(message, i);
  }
}

}  // namespace
}  // namespace atp
