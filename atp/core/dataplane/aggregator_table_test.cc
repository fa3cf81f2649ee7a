#include "atp/core/dataplane/aggregator_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "atp/base/random.h"

namespace atp {
namespace {

using Bytes = std::vector<std::uint8_t>;

// Values as a packet carries them.
Bytes wire(const std::vector<std::uint32_t>& values) {
  Bytes bytes(4 * values.size());
  for (std::size_t i = 0; i < values.size(); ++i) atp_store32(&bytes[4 * i], values[i]);
  return bytes;
}

std::vector<std::uint32_t> random_values(Random& random, std::size_t count) {
  std::vector<std::uint32_t> values(count);
  for (auto& value : values) value = static_cast<std::uint32_t>(random.next());
  return values;
}

Bytes load(AggregatorTable& table, std::uint32_t slot, std::size_t count) {
  Bytes out(4 * count);
  table.apply(ATP_DATA_LOAD, ATP_KIND_SUM_PLAIN, slot, {}, out);
  return out;
}

TEST(AggregatorTable, LoadsWhatItStoredInBigEndian) {
  AggregatorTable table(2, 4);
  const Bytes in = {0x01, 0x02, 0x03, 0x04, 0xff, 0xff, 0xff, 0xff};
  table.apply(ATP_DATA_STORE, ATP_KIND_SUM_PLAIN, 1, in, {});
  EXPECT_EQ(load(table, 1, 2), in);
}

TEST(AggregatorTable, AddsModulo2To32AtEveryLength) {
  Random random(1);
  for (std::size_t count = 1; count <= 67; ++count) {
    AggregatorTable table(3, 67);
    const auto a = random_values(random, count);
    const auto b = random_values(random, count);
    const auto c = random_values(random, count);
    std::vector<std::uint32_t> sum(count);
    for (std::size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i] + c[i];

    table.apply(ATP_DATA_STORE, ATP_KIND_SUM_PLAIN, 1, wire(a), {});
    table.apply(ATP_DATA_COMBINE, ATP_KIND_SUM_PLAIN, 1, wire(b), {});
    Bytes out(4 * count);
    table.apply(ATP_DATA_COMBINE_LOAD, ATP_KIND_SUM_PLAIN, 1, wire(c), out);
    EXPECT_EQ(out, wire(sum)) << count << " values";
    EXPECT_EQ(load(table, 1, count), wire(sum)) << count << " values";
  }
}

TEST(AggregatorTable, ValuesNeedNoAlignment) {
  Random random(2);
  const auto values = random_values(random, 33);
  const Bytes aligned = wire(values);
  for (std::size_t shift = 0; shift < 8; ++shift) {
    Bytes shifted(shift);
    shifted.insert(shifted.end(), aligned.begin(), aligned.end());
    AggregatorTable table(1, 33);
    table.apply(ATP_DATA_STORE, ATP_KIND_SUM_PLAIN, 0, std::span(shifted).subspan(shift), {});
    EXPECT_EQ(load(table, 0, 33), aligned) << "shifted by " << shift;
  }
}

TEST(AggregatorTable, NeighboursStayUntouched) {
  AggregatorTable table(3, 2);
  for (std::uint32_t slot = 0; slot < 3; ++slot) {
    table.apply(ATP_DATA_STORE, ATP_KIND_SUM_PLAIN, slot, wire({slot, slot}), {});
  }
  table.apply(ATP_DATA_COMBINE, ATP_KIND_SUM_PLAIN, 1, wire({100, 100}), {});
  EXPECT_EQ(load(table, 0, 2), wire({0, 0}));
  EXPECT_EQ(load(table, 1, 2), wire({101, 101}));
  EXPECT_EQ(load(table, 2, 2), wire({2, 2}));
}

std::uint32_t slot_of(const atp_share& share, std::uint32_t index, std::uint16_t tenant = 0) {
  atp_header header{};
  header.aggregator_index = index;
  header.tenant = tenant;
  return atp_slot_of_share(&share, &header);
}

TEST(AggregatorTable, EveryIndexOnTheWireHasASlot) {
  const atp_share all{.first = 0, .size = 7, .quota = 7, .held = 0};
  EXPECT_EQ(slot_of(all, 0), 0u);
  EXPECT_EQ(slot_of(all, 0xffffffff), 6u);
  EXPECT_EQ(slot_of(all, 0x80000000), 3u);
  const atp_share region{.first = 7, .size = 7, .quota = 7, .held = 0};
  EXPECT_EQ(slot_of(region, 0), 7u);
  EXPECT_EQ(slot_of(region, 0xffffffff), 13u);
}

// Jobs with the same number and incarnation name the same indices.
TEST(AggregatorTable, TenantsWithTheSameIndicesMeetNoMoreOftenThanByChance) {
  const atp_share all{.first = 0, .size = 16384, .quota = 16384, .held = 0};
  std::vector<std::uint32_t> begin;
  for (std::uint16_t tenant = 0; tenant < 100; ++tenant) begin.push_back(slot_of(all, 0, tenant));
  std::sort(begin.begin(), begin.end());
  for (std::size_t i = 1; i < begin.size(); ++i) {
    EXPECT_GT(begin[i] - begin[i - 1], all.size / 100 / 4);
  }
}

TEST(AggregatorTable, TablesAreEqualIfTheyAnswerEveryPacketAlike) {
  AggregatorTable a(2, 2);
  AggregatorTable b(2, 2);
  a.apply(ATP_DATA_STORE, ATP_KIND_SUM_PLAIN, 0, wire({1, 2}), {});
  EXPECT_TRUE(a == b) << "the values of an EMPTY aggregator do not count";
  for (AggregatorTable* table : {&a, &b}) {
    (*table)[0].state = ATP_AGGREGATING;
    (*table)[0].value_count = 2;
  }
  EXPECT_FALSE(a == b);
  b.apply(ATP_DATA_STORE, ATP_KIND_SUM_PLAIN, 0, wire({1, 2}), {});
  EXPECT_TRUE(a == b);
  AggregatorTable copy = a;
  copy[1].identity.sequence = 1;
  EXPECT_FALSE(copy == a);
}

TEST(AggregatorTableDeathTest, MoreValuesThanASlotHoldsBreakAnInvariant) {
  AggregatorTable table(2, 2);
  EXPECT_DEATH(table.apply(ATP_DATA_STORE, ATP_KIND_SUM_PLAIN, 0, wire({1, 2, 3}), {}),
               "broken invariant");
  EXPECT_DEATH(table.apply(ATP_DATA_STORE, ATP_KIND_SUM_PLAIN, 2, wire({1}), {}),
               "broken invariant");
}

TEST(AggregatorTable, FindsTheAggregatorsThatHoldASumAtTheEdgesOfItsWords) {
  for (const std::uint32_t size : {1u, 63u, 64u, 65u, 128u, 1000u}) {
    AggregatorTable table(size, 1);
    EXPECT_EQ(table.next_held(0), size) << "all are free";
    std::vector<std::uint32_t> held;
    for (const std::uint32_t slot : {0u, 1u, 62u, 63u, 64u, 127u, 128u, 999u}) {
      if (slot >= size) continue;
      table.note_held(slot, true);
      held.push_back(slot);
    }
    std::vector<std::uint32_t> found;
    for (std::uint32_t s = table.next_held(0); s < size; s = table.next_held(s + 1)) {
      found.push_back(s);
    }
    EXPECT_EQ(found, held) << size;
    for (const std::uint32_t slot : held) table.note_held(slot, false);
    EXPECT_EQ(table.next_held(0), size);
  }
}

}  // namespace
}  // namespace atp
