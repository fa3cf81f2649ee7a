#include "atp/core/server/server_turn.h"

namespace atp {

void answer(ServerTurn& turn, const Arrival& in, const RankSet& ranks,
            const StatusMessage& message) {
  ControlHead head;
  if (in.packet.type() != PacketType::kGradient)
    head.flags = in.packet.header.flags & ATP_FLAG_DIRECT;
  head.bitmap_words = in.packet.header.bitmap_words;
  head.job = in.packet.job();
  head.stream = in.packet.header.stream;
  if (!put_status(turn.out, head, ranks, message)) return;
  turn.count(counter_of(message.code));
  turn.out.send_to(in.from);
}

}  // namespace atp
