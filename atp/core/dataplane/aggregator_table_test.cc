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
  return atp_home(&share, index, tenant);
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

// A table in which the fragments with these indices are held at these slots, and looks for others.
struct Held {
  std::uint32_t slot;
  std::uint64_t sequence;
};

AggregatorTable holding(std::uint32_t size, std::initializer_list<Held> all) {
  AggregatorTable table(size, 1);
  for (const Held& held : all) {
    table[held.slot].state = ATP_AGGREGATING;
    table[held.slot].identity.sequence = held.sequence;
    table.note_held(held.slot, true);
  }
  return table;
}

TEST(AggregatorTable, FindsTheSumElseTheFirstFreePlaceElseTheHome) {
  constexpr std::uint64_t kThis = 7;
  constexpr std::uint64_t kOther = 1;
  struct Row {
    const char* name;
    atp_share region;
    std::uint32_t places;
    std::uint32_t home;  // in the region
    std::initializer_list<Held> held;
    std::uint32_t found;
  };
  const atp_share all{.first = 0, .size = 100, .quota = 100, .held = 0};
  const atp_share region{.first = 60, .size = 10, .quota = 10, .held = 0};
  const Row rows[] = {
      {"the free home", all, 16, 20, {}, 20},
      {"the sum at the home", all, 16, 20, {{20, kThis}}, 20},
      {"the sum at the last place", all, 16, 20, {{20, kOther}, {35, kThis}}, 35},
      {"a sum beyond the last place is not looked for", all, 16, 20, {{36, kThis}}, 20},
      {"a sum, although the home is free", all, 16, 20, {{21, kThis}}, 21},
      {"the first free place", all, 16, 20, {{20, kOther}, {21, kOther}, {23, kOther}}, 22},
      {"the home, if all places are held", all, 2, 20, {{20, kOther}, {21, kOther}}, 20},
      {"only the home, with one place", all, 1, 20, {{20, kOther}, {21, kThis}}, 20},
      {"across the words of the bitmap", all, 4, 62, {{62, kOther}, {63, kOther}}, 64},
      {"a sum across the words", all, 4, 62, {{62, kOther}, {65, kThis}}, 65},
      {"after the last aggregator the first", all, 4, 98, {{98, kOther}, {99, kOther}}, 0},
      {"a sum after the end", all, 4, 98, {{98, kOther}, {1, kThis}}, 1},
      {"not further after the end", all, 4, 98, {{2, kThis}}, 98},
      {"after the end of a region its beginning", region, 4, 9, {{69, kOther}, {60, kOther}}, 61},
      {"nothing beside the region", region, 4, 9, {{69, kOther}, {70, kThis}}, 60},
      {"each place of a small region once",
       region,
       16,
       5,
       {{60, 1}, {61, 1}, {62, 1}, {63, 1}, {65, 1}, {66, 1}, {67, 1}, {68, 1}, {69, 1}},
       64},
      {"no other identity", all, 16, 20, {{20, kOther}, {21, kThis + 1}, {22, kThis - 1}}, 23},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    AggregatorTable table = holding(100, row.held);
    atp_header header{};
    header.sequence = kThis;
    header.aggregator_index = static_cast<std::uint32_t>(
        ((std::uint64_t{row.home} << 32) + row.region.size - 1) / row.region.size);
    const PlaceFound found = table.find(row.region, row.places, header);
    EXPECT_EQ(found.home, row.region.first + row.home);
    EXPECT_EQ(found.slot, row.found);
    EXPECT_EQ(found.has, table[found.slot].identity.sequence == kThis);
  }
}

}  // namespace
}  // namespace atp
