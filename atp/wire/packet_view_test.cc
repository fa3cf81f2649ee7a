#include "atp/wire/packet_view.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace atp {
namespace {

using Bytes = std::vector<std::uint8_t>;

atp_header full_header() {
  atp_header h{};
  h.version = 2;
  h.type = ATP_GRADIENT;
  h.flags = ATP_FLAG_RESEND | ATP_FLAG_ECN;
  h.bitmap_words = 2;
  h.job = 0x01020304;
  h.incarnation = 0x05060708;
  h.stream = 0x090a;
  h.value_count = 2;
  h.sequence = 0x0b0c0d0e0f101112;
  h.aggregator_index = 0x13141516;
  h.operation = 0x1718191a;
  h.magnitude = 0x1b1c1d1e;
  h.kind = ATP_KIND_SUM_BLOCKS;
  h.hops = 15;
  return h;
}

const Bytes kGolden = {
    0x02, 0x00, 0x09, 0x02,                          // version, type, flags, bitmap words
    0x01, 0x02, 0x03, 0x04,                          // job
    0x05, 0x06, 0x07, 0x08,                          // incarnation
    0x09, 0x0a, 0x00, 0x02,                          // stream, value count
    0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12,  // sequence
    0x13, 0x14, 0x15, 0x16,                          // aggregator index
    0x17, 0x18, 0x19, 0x1a,                          // operation
    0x1b, 0x1c, 0x1d, 0x1e,                          // magnitude
    0x10, 0x0f, 0x00, 0x00,                          // kind, hops, tag words, 0
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x05,  // ranks 0 and 2
    0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // rank 127
    0xff, 0xff, 0xff, 0xfe, 0x00, 0x00, 0x00, 0x03,  // -2 and 3
};

RankSet golden_ranks() { return RankSet::of(0) | RankSet::of(2) | RankSet::of(127); }

ParseError error_of(const Bytes& bytes) { return parse_packet(bytes).error(); }

TEST(Packet, AGradientHasTheseBytes) {
  Bytes bytes(kGolden.size());
  write_packet_head(bytes.data(), full_header(), golden_ranks());
  atp_store32(&bytes[56], 0xfffffffe);
  atp_store32(&bytes[60], 3);
  EXPECT_EQ(bytes, kGolden);
}

TEST(Packet, EveryFieldIsReadBack) {
  const ParsedPacket parsed = parse_packet(kGolden);
  ASSERT_TRUE(parsed.ok());
  const PacketView& view = parsed.view();
  Bytes again(kGolden.begin(), kGolden.end());
  write_packet_head(again.data(), view.header, view.ranks);
  EXPECT_EQ(again, kGolden);
  EXPECT_EQ(view.type(), PacketType::kGradient);
  EXPECT_EQ(view.ranks, golden_ranks());
  EXPECT_EQ(view.job(), (JobKey{0x01020304, 0x05060708}));
  EXPECT_EQ(view.identity(), (Identity{view.job(), 0x090a, 0x0b0c0d0e0f101112, 0x1718191a}));
  EXPECT_TRUE(view.has(ATP_FLAG_ECN));
  EXPECT_FALSE(view.has(ATP_FLAG_DIRECT));
  ASSERT_EQ(view.body.size(), 8u);
  EXPECT_EQ(atp_load32(view.body.data()), 0xfffffffeu);
  EXPECT_EQ(view.bytes.size(), kGolden.size());
}

TEST(Packet, EachTypeWithoutABodyHasTheseBytes) {
  for (const auto type : {ATP_FLUSH, ATP_NACK}) {
    Bytes bytes(kGolden.begin(), kGolden.begin() + 56);
    bytes[ATP_AT_TYPE] = static_cast<std::uint8_t>(type);
    bytes[ATP_AT_VALUE_COUNT + 1] = 0;
    const ParsedPacket parsed = parse_packet(bytes);
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(parsed.view().header.type, type);
    EXPECT_TRUE(parsed.view().body.empty());
    bytes.push_back(0);
    EXPECT_EQ(error_of(bytes), ParseError::kBadLength);
  }
}

TEST(Packet, EveryTruncationIsTooShortAndNothingBeyondTheEndIsRead) {
  for (std::size_t length = 0; length < kGolden.size(); ++length) {
    // Allocated separately, so that the address sanitizer catches a read beyond its end.
    const Bytes cut(kGolden.begin(), kGolden.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_EQ(error_of(cut), ParseError::kTooShort) << length << " bytes";
  }
}

TEST(Packet, EachDefectHasItsError) {
  struct Case {
    const char* name;
    std::size_t at;
    std::uint8_t byte;
    ParseError error;
  };
  const Case cases[] = {
      {"version 0", ATP_AT_VERSION, 0, ParseError::kUnknownVersion},
      {"version 1", ATP_AT_VERSION, 1, ParseError::kUnknownVersion},
      {"version 3", ATP_AT_VERSION, 3, ParseError::kUnknownVersion},
      {"type 8", ATP_AT_TYPE, 8, ParseError::kUnknownType},
      {"type 255", ATP_AT_TYPE, 255, ParseError::kUnknownType},
      {"the next flag", ATP_AT_FLAGS, 64, ParseError::kUnknownFlags},
      {"the highest flag", ATP_AT_FLAGS, 128, ParseError::kUnknownFlags},
      {"the maximum of sums of blocks", ATP_AT_KIND, 17, ParseError::kUnknownKind},
      {"sums of plain int16", ATP_AT_KIND, 2, ParseError::kUnknownKind},
      {"16 bits, and more ranks than they allow", ATP_AT_KIND, ATP_KIND_SUM_BLOCKS_INT16,
       ParseError::kUnknownKind},
      {"a kind of a later version", ATP_AT_KIND, 0x20, ParseError::kUnknownKind},
      {"values of two bytes", ATP_AT_KIND, ATP_KIND_EXPONENTS, ParseError::kBadLength},
      {"no bitmap", ATP_AT_BITMAP_WORDS, 0, ParseError::kBadBitmapWidth},
      {"17 words", ATP_AT_BITMAP_WORDS, 17, ParseError::kBadBitmapWidth},
      {"a narrower bitmap than there is", ATP_AT_BITMAP_WORDS, 1, ParseError::kBadLength},
      {"a wider bitmap than there is", ATP_AT_BITMAP_WORDS, 16, ParseError::kTooShort},
      {"no values in a GRADIENT", ATP_AT_VALUE_COUNT + 1, 0, ParseError::kBadValueCount},
      {"fewer values than there are", ATP_AT_VALUE_COUNT + 1, 1, ParseError::kBadLength},
      {"more values than there are", ATP_AT_VALUE_COUNT + 1, 3, ParseError::kTooShort},
      {"more values than any packet has", ATP_AT_VALUE_COUNT, 0x10, ParseError::kBadValueCount},
      {"values in a FLUSH", ATP_AT_TYPE, ATP_FLUSH, ParseError::kBadValueCount},
      {"values in a NACK", ATP_AT_TYPE, ATP_NACK, ParseError::kBadValueCount},
      {"values in a JOIN", ATP_AT_TYPE, ATP_JOIN, ParseError::kBadValueCount},
      {"values in a STATUS", ATP_AT_TYPE, ATP_STATUS, ParseError::kBadValueCount},
  };
  for (const Case& c : cases) {
    Bytes bytes = kGolden;
    bytes[c.at] = c.byte;
    EXPECT_EQ(error_of(bytes), c.error) << c.name;
  }
  Bytes longer = kGolden;
  longer.push_back(0);
  EXPECT_EQ(error_of(longer), ParseError::kBadLength);
  Bytes of_nobody = kGolden;
  atp_store16(&of_nobody[ATP_AT_TENANT], ATP_TENANT_INVALID);
  EXPECT_EQ(error_of(of_nobody), ParseError::kUnknownKind);
}

TEST(Packet, AnUnknownVersionNeedsOnlyTheFirst12Bytes) {
  Bytes bytes(kGolden.begin(), kGolden.begin() + 12);
  bytes[0] = 9;
  EXPECT_EQ(error_of(bytes), ParseError::kUnknownVersion);
  bytes.pop_back();
  EXPECT_EQ(error_of(bytes), ParseError::kTooShort);
}

TEST(Packet, TheLargestPacketParses) {
  atp_header h = full_header();
  h.bitmap_words = ATP_BITMAP_WORDS_MAX;
  for (const std::uint8_t kind : {ATP_KIND_SUM_BLOCKS, ATP_KIND_EXPONENTS}) {
    h.kind = kind;
    h.value_count = static_cast<std::uint16_t>(atp_most_values(kind, ATP_VALUES_MAX));
    Bytes bytes(atp_packet_bytes(h.bitmap_words, h.kind, h.value_count));
    write_packet_head(bytes.data(), h, RankSet::first(kMaxRanks));
    const ParsedPacket parsed = parse_packet(bytes);
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(parsed.view().ranks, RankSet::first(kMaxRanks));
    EXPECT_EQ(parsed.view().body.size(), 4u * ATP_VALUES_MAX);
    ++h.value_count;
    write_packet_head(bytes.data(), h, RankSet::first(kMaxRanks));
    EXPECT_EQ(error_of(bytes), ParseError::kBadValueCount);
  }
}

TEST(Packet, AParameterHasItsNextIndexAndPartInTheMagnitudeField) {
  atp_header h = full_header();
  h.type = ATP_PARAMETER;
  h.next_index = 0x1f202122;
  Bytes bytes = kGolden;
  write_packet_head(bytes.data(), h, golden_ranks());
  EXPECT_EQ(atp_load32(&bytes[32]), 0x1f202100u);
  bytes[35] = 0x33;
  const ParsedPacket parsed = parse_packet(bytes);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed.view().header.next_index, 0x1f202100u);
  EXPECT_EQ(parsed.view().part(), 0x33u);
  EXPECT_EQ(parsed.view().header.magnitude, 0u);
}

TEST(Packet, APartIsSaidInEightBits) {
  const struct {
    std::uint32_t aggregators, said;
  } cases[] = {{0, 0},
               {1, 1},
               {15, 15},
               {16, 16},
               {31, 31},
               {32, 32},
               {33, 32},
               {63, 62},
               {64, 64},
               {67, 64},
               {100, 100},
               {1000, 992},
               {1023, 992},
               {1024, 1024},
               {32768, 32768},
               {507'903, 491'520},
               {507'904, 507'904},
               {1 << 24, 507'904},
               {UINT32_MAX, 507'904}};
  for (const auto& c : cases) {
    EXPECT_EQ(atp_part_of(atp_part_code(c.aggregators)), c.said) << c.aggregators;
  }
  for (unsigned code = 0; code < 256; ++code) {
    EXPECT_EQ(atp_part_code(atp_part_of(static_cast<atp_u8>(code))), code);
    if (code > 0) {
      EXPECT_GT(atp_part_of(static_cast<atp_u8>(code)), atp_part_of(static_cast<atp_u8>(code - 1)));
    }
  }
}

TEST(Packet, TheBodyOfAControlMessageIsAllThatFollowsTheBitmap) {
  for (const auto type : {ATP_JOIN, ATP_JOIN_ACK, ATP_LEAVE, ATP_STATUS}) {
    Bytes bytes = kGolden;
    bytes[ATP_AT_TYPE] = static_cast<std::uint8_t>(type);
    bytes[ATP_AT_VALUE_COUNT + 1] = 0;
    const ParsedPacket parsed = parse_packet(bytes);
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(parsed.view().body.size(), 8u);
  }
}

TEST(Packet, TheBitmapIsAsWideAsTheWorldNeeds) {
  EXPECT_EQ(bitmap_words_for(1), 1);
  EXPECT_EQ(bitmap_words_for(64), 1);
  EXPECT_EQ(bitmap_words_for(65), 2);
  EXPECT_EQ(bitmap_words_for(1024), 16);
  EXPECT_EQ(ranks_of_width(2), RankSet::first(128));
}

TEST(Packet, EveryErrorHasANameOfItsOwn) {
  std::set<std::string> names;
  for (std::size_t e = 0; e < static_cast<std::size_t>(ParseError::kCount); ++e) {
    const std::string name(to_string(static_cast<ParseError>(e)));
    EXPECT_TRUE(name.starts_with("drop_"));
    EXPECT_TRUE(names.insert(name).second) << name;
  }
}

// MurmurHash3's finalizer; the values are those of its reference implementation.
TEST(Hash, Fmix32IsMurmurs) {
  EXPECT_EQ(atp_fmix32(0), 0u);
  EXPECT_EQ(atp_fmix32(1), 0x514e28b7u);
  EXPECT_EQ(atp_fmix32(0xffffffff), 0x81f16f39u);
}

TEST(Hash, AnIndexMapsOntoAnyNumberOfAggregators) {
  EXPECT_EQ(atp_slot_of_index(0, 1000), 0u);
  EXPECT_EQ(atp_slot_of_index(0xffffffff, 1000), 999u);
  EXPECT_EQ(atp_slot_of_index(0xffffffff, 1), 0u);
  EXPECT_EQ(atp_slot_of_index(0xffffffff, 0xffffffff), 0xfffffffeu);
  EXPECT_EQ(atp_slot_of_index(0x40000000, 1000), 250u);
}

}  // namespace
}  // namespace atp
