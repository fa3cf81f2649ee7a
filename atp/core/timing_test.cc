#include "atp/core/timing.h"

#include <gtest/gtest.h>

// The table of docs/inside/protocol §8: a change of a time must change the page too.

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Timing, MatchesThePage) {
  struct Row {
    const char* what;
    Duration Timing::* time;
    Duration expected;
  };
  const Row rows[] = {
      {"JOIN, LEAVE: first interval", &Timing::join_first, milliseconds(50)},
      {"JOIN, LEAVE: last interval", &Timing::join_last, seconds(1)},
      {"JOIN: refresh", &Timing::join_refresh, seconds(1)},
      {"lease", &Timing::lease, seconds(5)},
      {"time-out: before the round trip is known", &Timing::rto_initial, milliseconds(100)},
      {"time-out: above a round trip", &Timing::rto_min, milliseconds(25)},
      {"time-out: most", &Timing::rto_max, seconds(1)},
      {"tolerance to reordering", &Timing::reorder_min, milliseconds(2)},
      {"switch: reclaim", &Timing::reclaim, seconds(1)},
      {"switch: sweep", &Timing::sweep, milliseconds(250)},
      {"server: FLUSH after", &Timing::flush_after, milliseconds(25)},
      {"server: NACK after that", &Timing::nack_after, milliseconds(10)},
      {"server: longest pause", &Timing::flush_max, seconds(1)},
      {"*waiting for* repeated", &Timing::waiting_for, seconds(1)},
      {"crossed operations", &Timing::crossed, seconds(5)},
      {"the same answer", &Timing::answer_pause, milliseconds(10)},
      {"return after detaching: second wait", &Timing::return_first, milliseconds(250)},
      {"return after detaching: longest wait", &Timing::return_max, seconds(60)},
  };
  for (const Row& row : rows) EXPECT_EQ(Timing{}.*row.time, row.expected) << row.what;
}

}  // namespace
}  // namespace atp
