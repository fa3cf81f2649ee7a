#include <string>

#include "atp/core/testing_drops.h"
#include "atp/core/testing_fates.h"
#include "atp/core/worker/worker_script_test.h"

// What a worker does with every type of message in every circumstance.

namespace atp {
namespace {

using W = WorkerCounter;
using Bytes = std::vector<std::uint8_t>;

// Four fragments were sent, and the first is answered.
constexpr std::uint64_t kPast = 0;
constexpr std::uint64_t kExpected = 1;
constexpr std::uint64_t kFuture = 4;

constexpr Timing kTiming;

void move(atp_header& h, When when) { h.sequence = when == When::kPast ? kPast : kFuture; }

// A worker in the middle of an operation, and packets that its switch may send.
struct BusyWorker : WorkerScript {
  BusyWorker() {
    join();
    submit({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
    sent = gradients(run());
    answer(sent.at(kPast), {100, 200, 300, 400});
    advance(kTiming.reorder_min);  // so that a NACK is not too early
    out.clear();
  }

  // The fragment's packet as another type, with or without values.
  Bytes as(PacketType type) const {
    atp_header h = sent.at(kExpected).view().header;
    h.type = static_cast<std::uint8_t>(type);
    Bytes bytes = sent[kExpected].bytes;
    if (type != PacketType::kGradient && type != PacketType::kParameter) {
      h.value_count = 0;
      bytes.resize(atp_body_offset(1));
    }
    write_packet_head(bytes.data(), h, RankSet::first(3));
    if (type == PacketType::kParameter) atp_store32(&bytes[atp_body_offset(1)], 5000);  // a sum
    return bytes;
  }
  template <class Put, class Body>
  Bytes control(Put put, PacketType type, const Body& body) const {
    Outbox message;
    put(message, head(type), RankSet::of(1), body);
    message.send_to(kTestSwitch);
    const auto bytes = message.bytes_of(message.packets()[0]);
    return {bytes.begin(), bytes.end()};
  }

  std::vector<SentPacket> sent;
};

struct Message {
  const char* name;
  Bytes bytes;
  Fates<W> fates;
};

// The fates of a message that is not about a fragment.
Fates<W> control_fates(W taken) {
  return {
      taken, taken, taken, taken, W::kDropWrongJob, W::kDropWrongJob, taken, W::kDropWrongSource};
}

std::vector<Message> messages() {
  const BusyWorker worker;
  StatusMessage waiting;
  waiting.code = StatusCode::kWaitingFor;
  waiting.about = RankSet::of(2);
  return {
      {"GRADIENT", worker.as(PacketType::kGradient), control_fates(W::kDropWrongDirection)},
      {"PARAMETER",
       worker.as(PacketType::kParameter),
       {W::kParametersDuplicate, W::kParametersReceived, W::kDropUnsentSequence,
        W::kParametersDuplicate, W::kDropWrongJob, W::kDropWrongJob, W::kDropWrongOperation,
        W::kDropWrongSource}},
      {"FLUSH", worker.as(PacketType::kFlush), control_fates(W::kFlushesReceived)},
      {"NACK",
       worker.as(PacketType::kNack),
       {W::kParametersDuplicate, W::kRepeatsPlain, W::kDropUnsentSequence, W::kNacksEarly,
        W::kDropWrongJob, W::kDropWrongJob, W::kDropWrongOperation, W::kDropWrongSource}},
      {"JOIN", worker.as(PacketType::kJoin), control_fates(W::kDropWrongDirection)},
      {"JOIN_ACK", worker.control(put_join_ack, PacketType::kJoinAck, worker.ack()),
       control_fates(W::kJoinsAnswered)},
      {"LEAVE", worker.as(PacketType::kLeave), control_fates(W::kDropWrongDirection)},
      {"STATUS", worker.control(put_status, PacketType::kStatus, waiting),
       control_fates(W::kWaitingForReceived)},
  };
}

void check(const Message& message, std::size_t circumstance) {
  const Circumstance& c = kCircumstances[circumstance];
  SCOPED_TRACE(std::string(message.name) + ", " + c.name);
  BusyWorker s;
  const Bytes bytes = in_circumstance(c, message.bytes, move);
  const Endpoint from = c.from_stranger ? Endpoint::ipv4(6, 6, 6, 6, 6) : kTestSwitch;
  const auto receive = [&] { s.worker.handle_packet(s.now, from, bytes, s.tensors, s.out); };
  for (int i = 1; i < c.times; ++i) receive();

  const W fate = message.fates[circumstance];
  const std::uint64_t before = s.worker.counters()[fate];
  const std::uint64_t dropped_before = drops_in(s.worker.counters());
  const auto tensors_before = s.tensors.data;
  receive();
  EXPECT_EQ(s.worker.counters()[fate], before + 1) << to_string(fate);
  const bool dropped = is_drop(to_string(fate));
  EXPECT_EQ(drops_in(s.worker.counters()), dropped_before + (dropped ? 1 : 0));
  EXPECT_EQ(s.tensors.data == tensors_before, fate != W::kParametersReceived)
      << "only the awaited sum is written";
}

TEST(WorkerFates, OfEveryMessageInEveryCircumstance) {
  for (const Message& message : messages()) {
    for (std::size_t i = 0; i < std::size(kCircumstances); ++i) check(message, i);
  }
}

TEST(WorkerFates, AStatusThatDoesNotConcernAMemberIsCountedAndIgnored) {
  struct Case {
    const char* name;
    StatusCode code;
    std::uint64_t nonce;
    bool busy = true;
  };
  const Case cases[] = {
      {"others disagree about a fragment that has its sum", StatusCode::kOperationMismatch, 0},
      {"a rank left, but nothing waits for it", StatusCode::kLeft, 0, false},
      {"this rank left, although it has not", StatusCode::kLeft, WorkerScript::kNonce},
      {"another one was refused", StatusCode::kRefused, 0},
      {"a node speaks other versions", StatusCode::kVersions, 0},
      {"another one detached", StatusCode::kDetached, 0},
      {"a switch is asked whether it is there", StatusCode::kAreYouThere, WorkerScript::kNonce},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    BusyWorker s;
    for (std::size_t i = c.busy ? s.sent.size() : 1; i < s.sent.size(); ++i) s.echo(s.sent[i]);
    while (s.worker.poll_event()) continue;
    StatusMessage status;
    status.code = c.code;
    status.nonce = c.nonce;
    status.about = RankSet::of(2);
    s.receive_status(status, kTestSwitch, kPast, s.sent[kPast].view().header.operation);
    EXPECT_EQ(s.worker.counters()[W::kStatusIgnored], 1u);
    EXPECT_FALSE(s.worker.poll_event().has_value());
    EXPECT_TRUE(s.take().empty());
  }
}

TEST(WorkerFates, AStatusAboutAnotherSocketsStreamsIsDroppedWhateverItSays) {
  for (unsigned code = 0; code < static_cast<unsigned>(StatusCode::kCount); ++code) {
    StatusMessage status;
    status.code = static_cast<StatusCode>(code);
    if (status.code == StatusCode::kVersions) continue;  // its stream means nothing
    for (const std::uint64_t nonce : {std::uint64_t{0}, WorkerScript::kNonce}) {
      SCOPED_TRACE(std::string(to_string(status.code)) + (nonce == 0 ? "" : ", with its nonce"));
      BusyWorker s;
      status.nonce = nonce;
      status.about = RankSet::first(3);
      s.receive_status(status, kTestSwitch, kExpected, 0, 1);
      EXPECT_EQ(s.worker.counters()[W::kDropWrongStream], 1u);
      EXPECT_FALSE(s.worker.poll_event().has_value());
      EXPECT_TRUE(s.take().empty());
    }
  }
}

}  // namespace
}  // namespace atp
