#include <array>
#include <string>

#include "atp/core/worker/worker_script_test.h"

// What becomes of every type of message in every circumstance, at a worker. Each row is a type;
// each cell says which counter rises: a name with kDrop means that the packet is dropped, and every
// other that it is not.

namespace atp {
namespace {

using W = WorkerCounter;
using Bytes = std::vector<std::uint8_t>;

// Four fragments were sent, and the first is answered.
constexpr std::uint64_t kPast = 0;
constexpr std::uint64_t kExpected = 1;
constexpr std::uint64_t kFuture = 4;

struct Circumstance {
  const char* name;
  void (*change)(atp_header& h);
  int times = 1;
  Endpoint from = kTestSwitch;
};

const Circumstance kCircumstances[] = {
    {"past", [](atp_header& h) { h.sequence = kPast; }},
    {"expected", [](atp_header&) {}},
    {"future", [](atp_header& h) { h.sequence = kFuture; }},
    {"duplicate", [](atp_header&) {}, 2},
    {"foreign job", [](atp_header& h) { ++h.job; }},
    {"foreign incarnation", [](atp_header& h) { ++h.incarnation; }},
    {"wrong operation", [](atp_header& h) { ++h.operation; }},
    {"wrong source", [](atp_header&) {}, 1, Endpoint::ipv4(6, 6, 6, 6, 6)},
};

// kCount: none rises, the message is for switches and ignored.
using Fates = std::array<W, std::size(kCircumstances)>;

// A worker in the midst of an operation, and the packets that the switch may send it.
struct BusyWorker : WorkerScript {
  BusyWorker() {
    join();
    submit({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
    sent = gradients(run());
    answer(sent.at(kPast), {100, 200, 300, 400});
    out.clear();
  }

  // The packet of a fragment, with or without its values, as another type.
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

  std::vector<Sent> sent;
};

struct Message {
  const char* name;
  Bytes bytes;
  Fates fates;
};

// Of a message that is not about a fragment.
Fates control_fates(W taken) {
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
      {"FLUSH", worker.as(PacketType::kFlush), control_fates(W::kCount)},
      {"NACK",
       worker.as(PacketType::kNack),
       {W::kParametersDuplicate, W::kRepeatsPlain, W::kDropUnsentSequence, W::kRepeatsResend,
        W::kDropWrongJob, W::kDropWrongJob, W::kDropWrongOperation, W::kDropWrongSource}},
      {"JOIN", worker.as(PacketType::kJoin), control_fates(W::kDropWrongDirection)},
      {"JOIN_ACK", worker.control(put_join_ack, PacketType::kJoinAck, worker.ack()),
       control_fates(W::kJoinsAnswered)},
      {"LEAVE", worker.as(PacketType::kLeave), control_fates(W::kDropWrongDirection)},
      {"STATUS", worker.control(put_status, PacketType::kStatus, waiting),
       control_fates(W::kWaitingForReceived)},
  };
}

std::uint64_t drops(const Worker& worker) {
  std::uint64_t sum = 0;
  worker.counters().for_each([&](std::string_view name, std::uint64_t value) {
    if (name.starts_with("drop_")) sum += value;
  });
  return sum;
}

std::uint64_t count(const Worker& worker, W counter) {
  return counter == W::kCount ? 0 : worker.counters()[counter];
}

void check(const Message& message, std::size_t circumstance) {
  const Circumstance& c = kCircumstances[circumstance];
  SCOPED_TRACE(std::string(message.name) + ", " + c.name);
  BusyWorker s;
  Bytes bytes = message.bytes;
  atp_header h;
  atp_read_header(bytes.data(), &h);
  c.change(h);
  atp_write_header(bytes.data(), &h);
  const auto receive = [&] { s.worker.handle_packet(s.now, c.from, bytes, s.tensors, s.out); };
  for (int i = 1; i < c.times; ++i) receive();

  const W fate = message.fates[circumstance];
  const std::uint64_t before = count(s.worker, fate);
  const std::uint64_t dropped_before = drops(s.worker);
  const auto tensors_before = s.tensors.data;
  receive();
  const bool counted = fate != W::kCount;
  EXPECT_EQ(count(s.worker, fate), before + (counted ? 1 : 0)) << to_string(fate);
  const bool dropped = counted && to_string(fate).starts_with("drop_");
  EXPECT_EQ(drops(s.worker), dropped_before + (dropped ? 1 : 0));
  EXPECT_EQ(s.tensors.data == tensors_before, fate != W::kParametersReceived)
      << "only the awaited sum is written";
}

TEST(WorkerFates, OfEveryMessageInEveryCircumstance) {
  for (const Message& message : messages()) {
    for (std::size_t i = 0; i < std::size(kCircumstances); ++i) check(message, i);
  }
}

}  // namespace
}  // namespace atp
