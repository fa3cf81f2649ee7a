#include "atp/core/dataplane/pipeline.h"

#include <gtest/gtest.h>

#include <set>
#include <span>
#include <vector>

#include "atp/core/dataplane/aggregator_table.h"
#include "atp/core/dataplane/conformance/gradient_admission_rows.h"
#include "atp/core/dataplane/conformance/gradient_empty_rows.h"
#include "atp/core/dataplane/conformance/gradient_held_rows.h"
#include "atp/core/dataplane/conformance/release_rows.h"

// The table of docs/inside/protocol §4 as data: every switch engine (user space, eBPF, P4) runs the
// same rows, so that none has rules of its own. Here they run through the pipeline and the user
// space aggregators, for several bitmap widths. A row's ranks are in the last word, so that every
// word counts.

namespace atp::conformance {
namespace {

constexpr std::span<const Row> kTable[] = {
    kGradientAdmissionRows, kGradientShareRows, kGradientEmptyRows, kGradientOtherRows,
    kGradientSameRows,      kParameterRows,     kFlushRows,         kSweepRows,
};

template <class Visit>
void for_each_row(Visit&& visit) {
  for (const std::span<const Row> rows : kTable) {
    for (const Row& row : rows) visit(row);
  }
}

using Values = std::vector<std::uint8_t>;

// The same value `count` times, in the width that the kind has.
Values wire_values(std::uint32_t value, std::uint16_t count, std::uint8_t kind) {
  const std::size_t each = atp_value_bytes(kind);
  std::uint8_t wire[4];
  atp_store32(wire, each == 2 ? value << 16 : value);
  Values bytes(each * count);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = wire[i % each];
  return bytes;
}

atp_identity identity_of(const FragmentName& name) {
  return {name.sequence, name.job, name.incarnation, name.operation, name.stream, name.tenant};
}

atp_aggregator aggregator_of(const Held& held, std::uint8_t words) {
  atp_aggregator a{};
  a.state = static_cast<std::uint8_t>(held.state);
  a.any_returned = held.returned ? 1 : 0;
  if (held.returned) a.returned = identity_of(*held.returned);
  a.any_passed = held.passed ? 1 : 0;
  if (held.passed) a.passed = identity_of(*held.passed);
  if (held.state != ATP_AGGREGATING) return a;
  a.identity = identity_of(held.name);
  a.last_use = held.last_use;
  a.aggregator_index = kIndex;
  a.magnitude = held.magnitude;
  a.value_count = held.value_count;
  a.bitmap_words = words;
  a.flags = held.flags;
  a.kind = held.kind;
  a.hops = held.hops;
  a.bitmap[words - 1] = held.ranks;
  return a;
}

atp_fragment fragment_of(const Packet& packet, std::uint8_t words) {
  atp_fragment p{};
  p.header.version = ATP_VERSION;
  p.header.type = static_cast<std::uint8_t>(packet.type);
  p.header.flags = packet.flags;
  p.header.bitmap_words = static_cast<std::uint8_t>(words + packet.more_words);
  p.header.job = packet.name.job;
  p.header.incarnation = packet.name.incarnation;
  p.header.tenant = packet.name.tenant;
  p.header.stream = packet.name.stream;
  p.header.value_count = packet.value_count;
  p.header.sequence = packet.name.sequence;
  p.header.aggregator_index = kIndex;
  p.header.operation = packet.name.operation;
  p.header.magnitude = packet.magnitude;
  p.header.next_index = packet.next_index;
  p.header.kind = packet.kind;
  p.header.hops = packet.hops;
  p.bitmap[words - 1] = packet.ranks;
  return p;
}

// Runs a row through the pipeline with one aggregator and its values, and its home.
class Engine {
 public:
  Engine(const Held& held, const std::optional<Held>& home, std::uint8_t words)
      : table_(home ? 2 : 1, kValueLimit), words_(words) {
    if (home) table_[1] = aggregator_of(*home, words);
    table_[0] = aggregator_of(held, words);
    table_.apply(ATP_DATA_STORE, held.kind, 0, wire_values(held.value, held.value_count, held.kind),
                 {});
  }

  struct Outcome {
    atp_verdict verdict;
    atp_fragment fragment;
    Values values;
  };

  Outcome run(const Row& row) {
    atp_tree_entry tree{};
    tree.members[words_ - 1] = row.tree.members;
    tree.detached[words_ - 1] = row.tree.detached;
    tree.value_count = row.tree.value_count;
    tree.value_limit = kValueLimit;
    tree.bitmap_words = words_;
    const atp_share share{.first = 0, .size = row.tree.region, .quota = row.tree.quota, .held = 0};
    std::uint64_t sender[ATP_PIPELINE_WORDS] = {};
    sender[words_ - 1] = row.tree.sender;

    Outcome outcome{{}, conformance::fragment_of(row.in, words_), {}};
    atp_fragment* p = &outcome.fragment;
    atp_aggregator* a = &table_[0];
    atp_aggregator* home = &table_[table_.size() - 1];
    const int has = atp_has_fragment(a, &p->header);
    if (row.event == Event::kSweep) {
      outcome.verdict = atp_on_sweep(a, home, kNow, kReclaim, p);
    } else if (row.in.type == ATP_PARAMETER) {
      outcome.verdict = atp_on_parameter(a, home, has, home, &p->header, kNow, kReclaim);
    } else if (row.in.type == ATP_FLUSH) {
      outcome.verdict = atp_on_flush(a, home, has, p);
    } else {
      outcome.verdict =
          atp_on_gradient(a, home, has, &tree, &share, sender, row.tree.sequence_limit, kNow, p);
    }
    move_values(row, outcome);
    return outcome;
  }

  const AggregatorTable& table() const { return table_; }

 private:
  void move_values(const Row& row, Outcome& outcome) {
    const Values in = wire_values(row.in.value, row.in.value_count, row.in.kind);
    outcome.values = in;
    const atp_header& out = outcome.fragment.header;
    const auto operation = static_cast<atp_data_op>(outcome.verdict.data);
    if (operation == ATP_DATA_LOAD || operation == ATP_DATA_COMBINE_LOAD) {
      outcome.values.assign(std::size_t{atp_value_bytes(out.kind)} * out.value_count, 0);
    }
    table_.apply(operation, out.kind, 0, in, outcome.values);
  }

  AggregatorTable table_;
  std::uint8_t words_;
};

void check(const Row& row, std::uint8_t words) {
  SCOPED_TRACE(testing::Message() << row.name << " (" << int{words} << " words)");
  Engine engine(row.before, row.home, words);
  const Engine::Outcome outcome = engine.run(row);
  EXPECT_EQ(outcome.verdict.reason, row.reason);
  EXPECT_EQ(outcome.verdict.forward, row.forward);
  EXPECT_TRUE(engine.table() == Engine(row.after, row.home_after, words).table());
  if (row.forward != ATP_FORWARD_PARENT) return;

  const atp_fragment expected = fragment_of(row.out, words);
  std::uint8_t left[ATP_HEADER_BYTES];
  std::uint8_t right[ATP_HEADER_BYTES];
  atp_write_header(left, &outcome.fragment.header);
  atp_write_header(right, &expected.header);
  EXPECT_EQ(Values(left, left + ATP_HEADER_BYTES), Values(right, right + ATP_HEADER_BYTES));
  for (std::size_t w = 0; w < ATP_PIPELINE_WORDS; ++w) {
    EXPECT_EQ(outcome.fragment.bitmap[w], expected.bitmap[w]) << "word " << w;
  }
  EXPECT_EQ(outcome.values, wire_values(row.out.value, row.out.value_count, row.out.kind));
}

class Conformance : public testing::TestWithParam<std::uint8_t> {};

TEST_P(Conformance, EveryRowOfTheTableHolds) {
  for_each_row([](const Row& row) {
    if (row.in.more_words + GetParam() <= ATP_BITMAP_WORDS_MAX) check(row, GetParam());
  });
}

INSTANTIATE_TEST_SUITE_P(BitmapWords, Conformance, testing::Values(1, 2, ATP_BITMAP_WORDS_MAX));

TEST(ConformanceTable, HasARowForEveryReason) {
  std::set<int> seen;
  for_each_row([&](const Row& row) { seen.insert(row.reason); });
  for (int reason = 0; reason < ATP_REASONS; ++reason) {
    EXPECT_TRUE(seen.contains(reason)) << "reason " << reason;
  }
}

TEST(ConformanceTable, NamesEachRowOnce) {
  std::set<std::string> names;
  for_each_row([&](const Row& row) { EXPECT_TRUE(names.insert(row.name).second) << row.name; });
}

TEST(SequenceLimit, IsTwoWindowsAheadAndNeverWraps) {
  EXPECT_EQ(atp_sequence_limit(0, 1), 2u);
  EXPECT_EQ(atp_sequence_limit(1000, 65536), 132072u);
  EXPECT_EQ(atp_sequence_limit(~std::uint64_t{0} - 1, 1), ~std::uint64_t{0});
}

// Whatever the order of three contributions, the complete sum is the same, bit by bit.
TEST(Pipeline, TheSumDoesNotDependOnTheOrder) {
  const Packet parts[] = {
      {.ranks = 0b001, .flags = kEcn, .magnitude = 2'000'000'000, .value = 2'000'000'000},
      {.ranks = 0b010, .flags = kOverflow, .magnitude = 300'000'000, .value = 300'000'000},
      {.ranks = 0b100, .magnitude = 500'000'000, .value = 0U - 500'000'000U}};
  const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (const auto& order : orders) {
    Engine engine(fresh(), {}, 1);
    for (const int part : order) {
      const Engine::Outcome outcome = engine.run({.name = "", .in = parts[part]});
      if (part != order[2]) continue;
      EXPECT_EQ(outcome.verdict.reason, ATP_COMPLETED);
      EXPECT_EQ(outcome.fragment.header.flags, kEcn | kOverflow);
      EXPECT_EQ(outcome.fragment.header.magnitude, 2'800'000'000u);
      EXPECT_EQ(outcome.values, wire_values(1'800'000'000, kValueCount, ATP_KIND_SUM_FIXED));
    }
  }
}

}  // namespace
}  // namespace atp::conformance
