#include "atp/core/server/reply.h"

namespace atp {

void reply(Turn& turn, const Endpoint& to, const PacketView& packet, const RankSet& ranks,
           const StatusMessage& message) {
  ControlHead head;
  if (packet.type() != PacketType::kGradient) head.flags = packet.header.flags & ATP_FLAG_DIRECT;
  head.bitmap_words = packet.header.bitmap_words;
  head.job = packet.job();
  head.stream = packet.header.stream;
  if (!put_status(turn.out, head, ranks, message)) return;
  turn.count(counter_of(message.code));
  turn.out.send_to(to);
}

}  // namespace atp
