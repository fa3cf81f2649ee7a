#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "atp/wire/join.h"
#include "atp/wire/status.h"

namespace atp {
namespace {

using Bytes = std::vector<std::uint8_t>;

Endpoint hop(std::uint8_t n) { return Endpoint::ipv4(10, 0, 0, n, n); }

template <class Body>
Bytes written(const Body& body, std::size_t size) {
  Bytes bytes(size, 0xee);
  body.write(bytes.data());
  return bytes;
}

Bytes bytes_of(std::initializer_list<int> list) {
  Bytes bytes;
  for (const int byte : list) bytes.push_back(static_cast<std::uint8_t>(byte));
  return bytes;
}

Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Bytes wire(const Endpoint& endpoint) {
  Bytes bytes(Endpoint::kWireBytes);
  write_endpoint(bytes.data(), endpoint);
  return bytes;
}

// read() must accept the whole body and nothing shorter or longer. Each copy is allocated
// separately, so the address sanitizer catches a read beyond its end.
template <class Read>
void expect_exact_length(const Bytes& bytes, Read&& read) {
  EXPECT_TRUE(read(bytes));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_FALSE(read(cut)) << length << " of " << bytes.size() << " bytes";
  }
  Bytes longer = bytes;
  longer.push_back(0);
  EXPECT_FALSE(read(longer));
}

Join full_join() {
  Join join;
  join.nonce = 0x0102030405060708;
  join.server_boot_id = 0x2122232425262728;
  join.world_size = 0x0209;
  join.first_stream = 0x0a0b;
  join.stream_count = 0x0c0d;
  join.max_value_count = 0x010e;
  join.version_min = 1;
  join.version_max = 3;
  join.detached = true;
  join.number_format = NumberFormat::kBlocks;
  join.detachments = 0x11121314;
  join.proof = 0x3132333435363738;
  join.remaining.push_back(hop(1));
  join.remaining.push_back(hop(2));
  join.recorded.push_back(hop(3));
  return join;
}

TEST(Join, HasTheseBytesAndIsReadBack) {
  const Join join = full_join();
  const Bytes bytes = written(join, Join::kBytes);
  EXPECT_EQ(bytes, joined({bytes_of({1,    2,    3,    4,    5,    6,    7,    8,     // nonce
                                     0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,  // boot id
                                     0x02, 0x09,                                      // world size
                                     0x0a, 0x0b, 0x0c, 0x0d,                          // streams
                                     0x01, 0x0e,                                      // largest K
                                     1,    3,                                         // versions
                                     1,    1,                 // detached, number format
                                     0x11, 0x12, 0x13, 0x14,  // detachments
                                     2,    1,    0,    0,     // hops
                                     0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38}),  // proof
                           wire(hop(1)), wire(hop(2)), wire(hop(3)), Bytes(416 - 44 - 3 * 18)}));
  EXPECT_EQ(Join::read(bytes), join);
  expect_exact_length(bytes, [](const Bytes& b) { return Join::read(b).has_value(); });
}

TEST(Join, ARouteHasAtMostEightHops) {
  Join join = full_join();
  for (std::uint8_t n = 4; join.remaining.size() < Route::kMaxHops; ++n) {
    EXPECT_TRUE(join.remaining.push_back(hop(n)));
  }
  EXPECT_FALSE(join.remaining.push_back(hop(99)));
  Bytes bytes = written(join, Join::kBytes);
  EXPECT_EQ(Join::read(bytes), join);
  bytes[32] = 9;
  EXPECT_FALSE(Join::read(bytes));
}

TEST(Join, TheFirstHopIsTakenOffTheFront) {
  Join join = full_join();
  join.remaining.pop_front();
  EXPECT_EQ(join.remaining.size(), 1u);
  EXPECT_EQ(join.remaining.front(), hop(2));
  join.remaining.pop_front();
  EXPECT_EQ(join.remaining, Route{}) << "no hop is left behind";
}

TEST(Join, RefusesEveryFieldOutOfRange) {
  const std::vector<std::pair<const char*, std::function<void(Bytes&)>>> cases = {
      {"no world", [](Bytes& b) { atp_store16(&b[16], 0); }},
      {"a world beyond the bitmap", [](Bytes& b) { atp_store16(&b[16], 1025); }},
      {"no streams", [](Bytes& b) { atp_store16(&b[20], 0); }},
      {"streams beyond the last", [](Bytes& b) { atp_store16(&b[18], 0xf3f4); }},
      {"no values", [](Bytes& b) { atp_store16(&b[22], 0); }},
      {"more values than any packet has",
       [](Bytes& b) { atp_store16(&b[22], ATP_VALUES_MAX + 1); }},
      {"a detached mark other than 0 and 1", [](Bytes& b) { b[26] = 2; }},
      {"an unknown number format", [](Bytes& b) { b[27] = 4; }},
      {"nine hops", [](Bytes& b) { b[32] = 9; }},
      {"255 hops", [](Bytes& b) { b[33] = 255; }},
  };
  const Join join = full_join();
  for (const auto& [name, change] : cases) {
    Bytes bytes = written(join, Join::kBytes);
    change(bytes);
    EXPECT_FALSE(Join::read(bytes)) << name;
  }
  Bytes last = written(join, Join::kBytes);
  atp_store16(&last[18], 0xf3f3);  // 0xf3f3 + 0x0c0d = 0x10000
  EXPECT_TRUE(Join::read(last));
}

JoinAck full_ack() {
  JoinAck ack;
  ack.nonce = 0x0102030405060708;
  ack.server_boot_id = 0x1112131415161718;
  ack.scale = 1.5;
  ack.detachments = 0x21222324;
  ack.lease_ms = 0x25262728;
  ack.wmax = 0x8000;
  ack.value_count = 0x0102;
  ack.world_size = 0x0203;
  ack.first_stream = 0x2b2c;
  ack.stream_count = 0x2d2e;
  ack.detached = true;
  ack.number_format = NumberFormat::kBlocks;
  ack.linear_aggregators = 0x3132;
  return ack;
}

TEST(JoinAck, HasTheseBytesAndIsReadBack) {
  const Bytes bytes = written(full_ack(), JoinAck::kBytes);
  EXPECT_EQ(bytes, bytes_of({0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,  // nonce
                             0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,  // boot id
                             0x3f, 0xf8, 0,    0,    0,    0,    0,    0,     // scale
                             0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,  // detachments, lease
                             0,    0,    0x80, 0,                             // Wmax
                             0x01, 0x02, 0x02, 0x03,                          // K, world size
                             0x2b, 0x2c, 0x2d, 0x2e,                          // streams
                             1,    1,    0x31, 0x32}));  // detached, number format, placement
  EXPECT_EQ(JoinAck::read(bytes), full_ack());
  expect_exact_length(bytes, [](const Bytes& b) { return JoinAck::read(b).has_value(); });
}

TEST(JoinAck, RefusesEveryFieldOutOfRange) {
  const std::vector<std::pair<const char*, std::function<void(JoinAck&)>>> cases = {
      {"no window", [](JoinAck& a) { a.wmax = 0; }},
      {"a window that is not a power of two", [](JoinAck& a) { a.wmax = 6; }},
      {"a window beyond 65536", [](JoinAck& a) { a.wmax = 131072; }},
      {"no values", [](JoinAck& a) { a.value_count = 0; }},
      {"more values than any packet has", [](JoinAck& a) { a.value_count = ATP_VALUES_MAX + 1; }},
      {"no world", [](JoinAck& a) { a.world_size = 0; }},
      {"a world beyond the bitmap", [](JoinAck& a) { a.world_size = 1025; }},
      {"no streams", [](JoinAck& a) { a.stream_count = 0; }},
      {"streams beyond the last", [](JoinAck& a) { a.first_stream = 0xd2d3; }},
      {"no lease", [](JoinAck& a) { a.lease_ms = 0; }},
      {"scale 0", [](JoinAck& a) { a.scale = 0; }},
      {"a negative scale", [](JoinAck& a) { a.scale = -1; }},
      {"scale NaN", [](JoinAck& a) { a.scale = std::numeric_limits<double>::quiet_NaN(); }},
      {"scale infinite", [](JoinAck& a) { a.scale = std::numeric_limits<double>::infinity(); }},
  };
  for (const auto& [name, change] : cases) {
    JoinAck ack = full_ack();
    change(ack);
    EXPECT_FALSE(JoinAck::read(written(ack, JoinAck::kBytes))) << name;
  }
  Bytes bytes = written(full_ack(), JoinAck::kBytes);
  bytes[44] = 2;
  EXPECT_FALSE(JoinAck::read(bytes));
  bytes = written(full_ack(), JoinAck::kBytes);
  bytes[45] = 4;
  EXPECT_FALSE(JoinAck::read(bytes));
}

TEST(Leave, HasTheseBytesAndIsReadBack) {
  const Leave leave{0x0102030405060708};
  const Bytes bytes = written(leave, Leave::kBytes);
  EXPECT_EQ(bytes, joined({bytes_of({1, 2, 3, 4, 5, 6, 7, 8}), Bytes(264)}));
  EXPECT_EQ(Leave::read(bytes), leave);
  expect_exact_length(bytes, [](const Bytes& b) { return Leave::read(b).has_value(); });
}

TEST(Leave, SaysItsCauseInPrintableAscii) {
  const Leave leave{1, CauseText("out of memory")};
  const Bytes bytes = written(leave, Leave::kBytes);
  EXPECT_EQ(Leave::read(bytes), leave);
  EXPECT_EQ(CauseText("a\x1b[31m\n\xc3\xa4z").view(), "a?[31m???z");
  const Leave longest{1, CauseText(std::string(1000, 'x'))};
  EXPECT_EQ(longest.cause.size(), CauseText::kMaxBytes);
  EXPECT_EQ(Leave::read(written(longest, Leave::kBytes)), longest);
}

Bytes written(const StatusMessage& status, std::uint8_t words) {
  Bytes bytes(status.bytes(words), 0xee);
  status.write(bytes.data(), words);
  return bytes;
}

TEST(StatusMessage, HasTheseBytesAndIsReadBack) {
  StatusMessage status;
  status.code = StatusCode::kDetached;
  status.reason = 0x0102;
  status.nonce = 0x1112131415161718;
  status.about = RankSet::of(0) | RankSet::of(64);
  status.other = RankSet::of(127);
  status.add_endpoint(hop(1));
  status.numbers[0] = 0x21222324;
  status.numbers[1] = 5;
  const Bytes bytes = written(status, 2);
  EXPECT_EQ(bytes, joined({bytes_of({0,    7,    1,    2,    0,    1,    0,    0,     //
                                     0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,  // nonce
                                     0,    0,    0,    0,    0,    0,    0,    1,
                                     0,    0,    0,    0,    0,    0,    0,    1,  // about
                                     0,    0,    0,    0,    0,    0,    0,    0,
                                     0x80, 0,    0,    0,    0,    0,    0,    0}),
                           wire(hop(1)), bytes_of({0x21, 0x22, 0x23, 0x24, 0, 0, 0, 5})}));
  EXPECT_EQ(StatusMessage::read(bytes, 2), status);
  expect_exact_length(bytes, [](const Bytes& b) { return StatusMessage::read(b, 2).has_value(); });
}

TEST(StatusMessage, EndsWithTheCause) {
  StatusMessage status;
  status.code = StatusCode::kLeft;
  status.about = RankSet::of(2);
  status.add_endpoint(hop(1));
  status.cause = CauseText("killed");
  const Bytes bytes = written(status, 1);
  EXPECT_EQ(bytes[7], 6);
  EXPECT_EQ(std::string(bytes.end() - 6, bytes.end()), "killed");
  EXPECT_EQ(StatusMessage::read(bytes, 1), status);
  expect_exact_length(bytes, [](const Bytes& b) { return StatusMessage::read(b, 1).has_value(); });
  status.cause = CauseText(std::string(200, 'x'));
  Bytes too_long = written(status, 1);
  too_long.push_back('x');
  atp_store16(&too_long[6], 201);
  EXPECT_FALSE(StatusMessage::read(too_long, 1));
}

TEST(StatusMessage, ARefusalHasTheExpectedAndFoundValuesAndTheRanksThatDiffer) {
  const Refusal refusal{RefusalReason::kWorldSize, 4, 8, RankSet::of(0) | RankSet::of(2)};
  const StatusMessage status = StatusMessage::refused(refusal, RankSet::of(3), 0x1112131415161718);
  const Bytes bytes = written(status, 1);
  EXPECT_EQ(bytes, bytes_of({0,    5,    0,    1,    0,    0,    0,    0,     // code, reason
                             0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,  // nonce
                             0,    0,    0,    0,    0,    0,    0,    8,     // about rank 3
                             0,    0,    0,    0,    0,    0,    0,    5,     // ranks 0 and 2
                             0,    0,    0,    4,    0,    0,    0,    8}));  // expected, found
  EXPECT_EQ(StatusMessage::read(bytes, 1), status);
  EXPECT_EQ(StatusMessage::read(bytes, 1)->refusal(), refusal);
  expect_exact_length(bytes, [](const Bytes& b) { return StatusMessage::read(b, 1).has_value(); });
}

TEST(StatusMessage, AnUnknownRefusalReasonReadsAsNone) {
  StatusMessage status = StatusMessage::refused({RefusalReason::kRoute}, RankSet::of(3), 1);
  status.reason = static_cast<std::uint16_t>(RefusalReason::kCount);
  EXPECT_EQ(status.refusal().reason, RefusalReason::kNone);
}

TEST(StatusMessage, EveryCodeIsReadBackAtEveryWidth) {
  for (std::uint16_t code = 0; code < static_cast<std::uint16_t>(StatusCode::kCount); ++code) {
    for (std::uint8_t words = 1; words <= ATP_BITMAP_WORDS_MAX; ++words) {
      StatusMessage status;
      status.code = static_cast<StatusCode>(code);
      if (status.code == StatusCode::kUnknownJob) continue;
      status.about = RankSet::of(static_cast<Rank>(64 * words - 1));
      EXPECT_EQ(StatusMessage::read(written(status, words), words), status);
    }
  }
}

TEST(StatusMessage, AnUnknownJobIsOnlyItsCodeAndConcernsTheRanksItIsAddressedTo) {
  StatusMessage status;
  status.code = StatusCode::kUnknownJob;
  status.about = RankSet::of(3);
  const Bytes bytes = written(status, 1);
  EXPECT_EQ(bytes, bytes_of({0, 3}));
  PacketView packet;
  packet.header.bitmap_words = 1;
  packet.ranks = RankSet::of(3);
  packet.body = bytes;
  EXPECT_EQ(StatusMessage::read(packet), status);
  expect_exact_length(bytes, [](const Bytes& b) { return StatusMessage::read(b, 1).has_value(); });

  Bytes other = bytes;
  other[1] = 0;
  EXPECT_FALSE(StatusMessage::read(other, 1)) << "no other code may have such a short body";
  other = written(StatusMessage{}, 1);
  other[1] = 3;
  EXPECT_FALSE(StatusMessage::read(other, 1)) << "an *unknown job* cannot have a longer body";
}

// The answer to a packet goes to its source address, which an attacker can forge.
TEST(StatusMessage, NoAnswerIsLargerThanThePacketThatCausesIt) {
  for (std::uint8_t words = 1; words <= ATP_BITMAP_WORDS_MAX; ++words) {
    StatusMessage longest;
    for (std::uint8_t n = 0; n < StatusMessage::kMaxEndpoints; ++n) longest.add_endpoint(hop(n));
    EXPECT_LE(longest.bytes(words), Join::kBytes) << "a JOIN";
    StatusMessage left;
    left.code = StatusCode::kLeft;
    EXPECT_LE(left.bytes(words), Leave::kBytes) << "a LEAVE";
    StatusMessage unknown;
    unknown.code = StatusCode::kUnknownJob;
    EXPECT_LE(unknown.bytes(words), atp_value_bytes(ATP_KIND_EXPONENTS)) << "the smallest GRADIENT";
  }
  EXPECT_LE(JoinAck::kBytes, Join::kBytes);
}

TEST(StatusMessage, RefusesEveryFieldOutOfRange) {
  StatusMessage status;
  Bytes bytes = written(status, 1);
  atp_store16(bytes.data(), static_cast<std::uint16_t>(StatusCode::kCount));
  EXPECT_FALSE(StatusMessage::read(bytes, 1)) << "an unknown code";

  for (std::uint8_t n = 0; n < StatusMessage::kMaxEndpoints; ++n) {
    EXPECT_TRUE(status.add_endpoint(hop(n)));
  }
  EXPECT_FALSE(status.add_endpoint(hop(99)));
  EXPECT_TRUE(status.add_endpoint(hop(0))) << "it is already in the list";
  bytes = written(status, 1);
  EXPECT_EQ(StatusMessage::read(bytes, 1), status);
  atp_store16(&bytes[4], 9);
  bytes.resize(bytes.size() + Endpoint::kWireBytes);
  EXPECT_FALSE(StatusMessage::read(bytes, 1)) << "nine endpoints";
  atp_store16(&bytes[4], 0xffff);
  EXPECT_FALSE(StatusMessage::read(bytes, 1)) << "65535 endpoints";
}

TEST(StatusMessage, ADetachedNamesAtMost128Ranks) {
  StatusMessage status;
  status.code = StatusCode::kDetached;
  status.about = RankSet::first(StatusMessage::kMaxNumbers);
  for (std::uint32_t i = 0; i < StatusMessage::kMaxNumbers; ++i) status.numbers[i] = i;
  EXPECT_EQ(StatusMessage::read(written(status, 16), 16), status);
  EXPECT_LE(ATP_HEADER_BYTES + 8u * 16 + status.bytes(16), 1500u - 48);

  Bytes bytes = written(status, 16);
  atp_store64(&bytes[16 + 8 * 15], 1);  // rank 960 as well
  bytes.resize(bytes.size() + 4);
  EXPECT_FALSE(StatusMessage::read(bytes, 16));
}

TEST(StatusMessage, EveryCodeAndReasonHasADistinctName) {
  std::set<std::string> names;
  for (std::uint16_t i = 0; i < static_cast<std::uint16_t>(StatusCode::kCount); ++i) {
    EXPECT_TRUE(names.insert(std::string(to_string(static_cast<StatusCode>(i)))).second) << i;
  }
  for (std::uint16_t i = 0; i < static_cast<std::uint16_t>(RefusalReason::kCount); ++i) {
    EXPECT_TRUE(names.insert(std::string(to_string(static_cast<RefusalReason>(i)))).second) << i;
  }
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_FALSE(names.contains("unknown reason"));
}

}  // namespace
}  // namespace atp
