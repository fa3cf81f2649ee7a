#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <vector>

#include "atp/wire/block_values.h"
#include "atp/wire/join.h"
#include "atp/wire/lanes.h"
#include "atp/wire/packet_view.h"
#include "atp/wire/plain_values.h"
#include "atp/wire/status.h"

// Whatever bytes a datagram has, reading it accesses no others. A well-formed packet and its
// control body are written again with the same bytes, and its values go through the arithmetic of
// its kind, as in a switch, and back into tensors of every type, as in a worker.

namespace {

using namespace atp;

void demand(bool holds) {
  if (!holds) std::abort();
}

void check_head(const PacketView& packet) {
  std::vector<std::uint8_t> head(packet.bytes.size() - packet.body.size());
  write_packet_head(head.data(), packet.header, packet.ranks);
  // A PARAMETER's part is no field of the header: a switch writes it over what came.
  if (packet.type() == PacketType::kParameter) head[ATP_AT_PART] = packet.part();
  demand(std::equal(head.begin(), head.end(), packet.bytes.begin()));
}

// Reserved bytes are not kept, so this reads the written body again and compares.
template <class Body, class... Words>
void check_body(std::span<const std::uint8_t> bytes, Words... words) {
  const std::optional<Body> body = Body::read(bytes, words...);
  if (!body) return;
  std::vector<std::uint8_t> again(bytes.size());
  body->write(again.data(), words...);
  demand(Body::read(again, words...) == body);
}

// Checks a switch's answer to the message, and a worker's text for it.
void check_status(const PacketView& packet) {
  check_body<StatusMessage>(packet.body, packet.header.bitmap_words);
  const std::optional<StatusMessage> message = StatusMessage::read(packet);
  const std::optional<StatusMessage> answer = StatusMessage::answer_to(packet);
  demand(!answer || answer->bytes(packet.header.bitmap_words) <= packet.body.size());
  if (!message) return;
  const Refusal refusal = message->refusal();
  demand(!to_string(refusal.reason).empty());
  for (const char byte : message->cause.view()) demand(byte >= ' ' && byte <= '~');
}

void check_values(const PacketView& packet) {
  const std::uint8_t kind = packet.header.kind;
  const std::size_t count = packet.header.value_count;
  std::vector<std::uint8_t> sum(packet.body.size());
  std::vector<std::uint8_t> out(packet.body.size());
  store_lanes(kind, sum.data(), packet.body.data(), sum.size());
  load_lanes(kind, sum.data(), out.data(), out.size());
  demand(std::equal(out.begin(), out.end(), packet.body.begin()));
  combine_lanes(kind, sum.data(), packet.body.data(), sum.size());
  combine_and_load_lanes(kind, sum.data(), packet.body.data(), out.data(), out.size());

  const bool is_narrow = atp_value_bytes(kind) == 2;
  std::vector<std::byte> tensor(4 * count);
  for (const DataType type :
       {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16, DataType::kInt32}) {
    if (!is_narrow) read_plain(type, Reduction::kMin, out.data(), count, tensor.data());
    if (!is_floating(type)) continue;
    const NumberFormat format = is_narrow ? NumberFormat::kBlocksInt16 : NumberFormat::kBlocks;
    const BlockUnit unit(static_cast<std::int16_t>(packet.header.operation % 277 - 149), 8, format);
    dequantize(out.data(), count, unit, format, 3, type, tensor.data());
    if (is_narrow) {
      read_classes(out.data(), count, type, tensor.data());
    } else {
      read_floats(out.data(), count, 3, type, tensor.data());
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<std::uint8_t> bytes(data,
                                        data + size);  // so that a read beyond its end is detected
  const ParsedPacket parsed = parse_packet(bytes);
  if (!parsed.ok()) return 0;
  const PacketView& packet = parsed.view();
  demand(packet.body.data() + packet.body.size() == bytes.data() + bytes.size());
  check_head(packet);
  switch (packet.type()) {
    case PacketType::kGradient:
    case PacketType::kParameter: check_values(packet); break;
    case PacketType::kJoin: check_body<Join>(packet.body); break;
    case PacketType::kJoinAck: check_body<JoinAck>(packet.body); break;
    case PacketType::kLeave: check_body<Leave>(packet.body); break;
    case PacketType::kStatus: check_status(packet); break;
    default: break;
  }
  return 0;
}
