// Writes each message of a job and chooses the datagrams that carry it.
#include "atp/core/server/downlink.h"

#include "atp/wire/lanes.h"

namespace atp {
atp_header Downlink::header(PacketType type, std::uint8_t flags, const FragmentName& name) const {
  atp_header h{};
  h.version = ATP_VERSION;
  h.type = static_cast<std::uint8_t>(type);
  h.flags = flags;
  h.bitmap_words = terms_.bitmap_words();
  h.job = terms_.key.job;
  h.incarnation = terms_.key.incarnation;
  h.tenant = terms_.key.tenant;
  h.stream = name.stream;
  h.sequence = name.sequence;
  h.aggregator_index = name.aggregator_index;
  h.operation = name.operation;
  h.kind = name.kind;
  h.hops = ATP_HOPS;
  return h;
}

std::size_t Downlink::paths_to(const RankSet& ranks) const {
  std::size_t paths = 0;
  members_.for_each_path(ranks, {}, [&](const Endpoint&) { ++paths; });
  return paths;
}

std::uint64_t Downlink::send(const RankSet& ranks, const RankSet& straight_too) {
  std::uint64_t datagrams = 0;
  members_.for_each_path(ranks, straight_too, [&](const Endpoint& to) {
    turn_.out.send_to(to);
    ++datagrams;
  });
  return datagrams;
}

void Downlink::parameter(const FragmentName& name, const Fragment& fragment,
                         std::span<const std::uint8_t> values, const RankSet& ranks,
                         const RankSet& straight_too) {
  std::uint8_t flags = fragment.flags & (ATP_FLAG_COLLISION | ATP_FLAG_ECN | ATP_FLAG_FLOAT);
  if (turn_.congested) flags |= ATP_FLAG_ECN;
  atp_header h = header(PacketType::kParameter, flags, name);
  h.value_count = fragment.value_count;
  h.next_index = fragment.next_index;
  const auto bytes = turn_.out.reserve(atp_packet_bytes(h.bitmap_words, h.kind, h.value_count));
  if (bytes.empty()) return;
  write_packet_head(bytes.data(), h, ranks);
  load_lanes(h.kind, values.data(), bytes.data() + atp_body_offset(h.bitmap_words),
             fragment.bytes());
  turn_.count(ServerCounter::kParametersSent, send(ranks, straight_too));
}

void Downlink::nack(const FragmentName& name, std::uint8_t flags, const RankSet& ranks,
                    const RankSet& straight_too) {
  if (ranks.empty()) return;
  if (!put_bare(turn_.out, header(PacketType::kNack, flags, name), ranks)) return;
  turn_.count(ServerCounter::kNacks);
  send(ranks, straight_too);
}

void Downlink::flush(const FragmentName& name, const RankSet& ranks) {
  if (!put_bare(turn_.out, header(PacketType::kFlush, 0, name), ranks)) return;
  turn_.count(ServerCounter::kFlushes);
  for (const Child& child : members_.tree().children()) {
    if (members_.is_switch(child) && child.ranks.intersects(ranks)) {
      turn_.out.send_to(child.endpoint);
    }
  }
}

bool Downlink::write_status(std::uint8_t flags, const FragmentName& name,
                            const StatusMessage& message, const RankSet& ranks) {
  ControlHead head;
  head.flags = flags;
  head.bitmap_words = terms_.bitmap_words();
  head.job = terms_.key;
  head.stream = name.stream;
  head.sequence = name.sequence;
  head.operation = name.operation;
  if (!put_status(turn_.out, head, ranks, message)) return false;
  turn_.count(counter_of(message.code));
  return true;
}

void Downlink::status(const FragmentName& name, const StatusMessage& message, const RankSet& ranks,
                      const RankSet& straight_too) {
  if (ranks.empty() || !write_status(0, name, message, ranks)) return;
  send(ranks, straight_too);
}

void Downlink::status_to(const Endpoint& to, std::uint8_t flags, const FragmentName& name,
                         const StatusMessage& message, const RankSet& ranks) {
  if (write_status(flags, name, message, ranks)) turn_.out.send_to(to);
}

void Downlink::status_to_switches(const StatusMessage& message) {
  bool any = false;
  for (const Child& child : members_.tree().children()) any |= members_.is_switch(child);
  if (!any) return;
  FragmentName name;
  name.stream = terms_.first_stream;
  if (!write_status(0, name, message, members_.all())) return;
  for (const Child& child : members_.tree().children()) {
    if (members_.is_switch(child)) turn_.out.send_to(child.endpoint);
  }
}

StatusMessage Downlink::waiting_for(const RankSet& missing) const {
  StatusMessage message;
  message.code = StatusCode::kWaitingFor;
  message.about = missing;
  add_homes(message);
  return message;
}

void Downlink::add_homes(StatusMessage& message) const {
  bool known = true;
  message.about.for_each([&](Rank rank) {
    const Endpoint& own = members_.record(rank).own;
    known = known && !own.unset();
    if (known) known = message.add_endpoint(own);
  });
}

bool Downlink::may_answer_waiting_for(Rank rank) {
  Instant& answered = members_.record(rank).waiting_answered;
  if (turn_.now < answered + turn_.config.timing.answer_pause) return false;
  answered = turn_.now;
  return true;
}

}  // namespace atp
