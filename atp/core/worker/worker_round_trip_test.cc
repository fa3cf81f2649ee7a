#include <gtest/gtest.h>

#include "atp/core/worker/worker_script_test.h"

// Which answers count as round-trip samples (docs/inside/protocol §5, *Loss*).

namespace atp {
namespace {

using std::chrono::milliseconds;

// The time-out of a fragment that is sent now, with nothing else in flight.
Duration time_out(WorkerScript& s) {
  s.submit({1});
  EXPECT_EQ(gradients(s.run()).size(), 1u);
  return s.worker.next_timeout() - s.now;
}

// Answers these after this time; returns what the worker sends then.
std::vector<SentPacket> answered(WorkerScript& s, const std::vector<SentPacket>& sent,
                                 Duration after) {
  s.advance(after);
  for (const SentPacket& gradient : sent) s.answer(gradient, {0, 0, 0, 0});
  return gradients(s.run());
}

TEST(WorkerRoundTrip, IsSampledFromFirstTransmissionsAfterAnOperationsFirstAnswer) {
  WorkerScript s;
  s.join();
  s.submit(std::vector<float>(9 * 4 * WorkerScript::kValues));
  auto sent = answered(s, gradients(s.run()), milliseconds(1));
  for (int round = 1; round < 9; ++round) {
    ASSERT_EQ(sent.size(), 4u);
    sent = answered(s, sent, milliseconds(20));
  }
  EXPECT_GT(time_out(s), milliseconds(40)) << "25 ms above a round trip of 20";
}

// One sample moves the estimate only a little, so this takes many.
TEST(WorkerRoundTrip, IsNotSampledFromARepeatedFragmentWhoseAnswerIsAmbiguous) {
  WorkerScript s;
  s.join();
  s.submit(std::vector<float>(2 * 4 * WorkerScript::kValues));
  answered(s, answered(s, gradients(s.run()), milliseconds(1)), milliseconds(1));
  for (int operation = 0; operation < 24; ++operation) {
    s.submit(std::vector<float>(5 * WorkerScript::kValues));
    const auto lost = answered(s, gradients(s.run()), milliseconds(60));
    ASSERT_EQ(lost.size(), 1u) << "sent after the first answer of its operation";
    std::vector<SentPacket> repeated;
    while (repeated.empty()) repeated = gradients(s.run_to_timer());  // a JOIN may be due before
    ASSERT_EQ(repeated.size(), 1u);
    answered(s, lost, milliseconds(60));
  }
  EXPECT_LT(time_out(s), milliseconds(40)) << "unchanged";
}

}  // namespace
}  // namespace atp
