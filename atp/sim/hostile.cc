// Draws which packet the attacker takes and what it changes.
#include "atp/sim/hostile.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "atp/core/outbox.h"
#include "atp/sim/control_forgery.h"
#include "atp/wire/status.h"

namespace atp::sim {
namespace {

constexpr std::size_t kKept = 64;
constexpr std::uint32_t kEarlier = 100'000;  // an incarnation that no plan has

struct Field {
  std::size_t offset;
  std::size_t width;
};
constexpr std::array kFields{Field{ATP_AT_VERSION, 1},   Field{ATP_AT_TYPE, 1},
                             Field{ATP_AT_FLAGS, 1},     Field{ATP_AT_BITMAP_WORDS, 1},
                             Field{ATP_AT_JOB, 4},       Field{ATP_AT_INCARNATION, 4},
                             Field{ATP_AT_STREAM, 2},    Field{ATP_AT_VALUE_COUNT, 2},
                             Field{ATP_AT_SEQUENCE, 8},  Field{ATP_AT_AGGREGATOR_INDEX, 4},
                             Field{ATP_AT_OPERATION, 4}, Field{ATP_AT_MAGNITUDE, 4},
                             Field{ATP_AT_KIND, 1},      Field{ATP_AT_HOPS, 1},
                             Field{ATP_AT_TAG_WORDS, 1}, Field{ATP_AT_BITMAP, 8}};

template <class Kept>
void keep(std::vector<Kept>& all, const Kept& one, Random& random) {
  if (all.size() < kKept) {
    all.push_back(one);
  } else {
    all[random.below(kKept)] = one;
  }
}

}  // namespace

void Hostile::capture(const Packet& packet) {
  if (captured_.size() < kKept) {
    captured_.push_back(packet);
  } else {
    captured_[next_++ % kKept] = packet;
  }
  if (packet.bytes.size() < ATP_HEADER_BYTES) return;
  const std::uint8_t type = packet.bytes[ATP_AT_TYPE];
  if (type == ATP_GRADIENT) keep(gradients_[packet.from], packet.bytes, random_);
  if (type == ATP_JOIN) keep(joins_[{packet.from, packet.to}], packet.bytes, random_);
  if (is_control(packet.bytes)) keep(controls_, packet.bytes, random_);
}

Hostile::Bytes Hostile::noise() {
  Bytes bytes(random_.below(random_.chance(0.1) ? 1500 : 120));
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random_.next());
  // Pure noise is dropped at its first byte; let some of it get further.
  if (!bytes.empty() && random_.chance(0.8)) bytes[ATP_AT_VERSION] = ATP_VERSION;
  if (bytes.size() > 3 && random_.chance(0.7)) {
    bytes[ATP_AT_TYPE] = static_cast<std::uint8_t>(random_.below(ATP_PACKET_TYPES));
    bytes[ATP_AT_FLAGS] &= ATP_FLAGS_KNOWN;
    bytes[ATP_AT_BITMAP_WORDS] = 1;
  }
  return bytes;
}

Hostile::Bytes Hostile::noise_of_a_member() {
  Bytes bytes = noise();
  if (!bytes.empty()) bytes[ATP_AT_VERSION] = ATP_VERSION;
  return bytes;
}

Hostile::Bytes Hostile::foreign() {
  Bytes bytes = random_.chance(0.3) && !controls_.empty() ? any_of(controls_) : captured();
  const std::uint64_t changes = 1 + random_.below(3);
  for (std::uint64_t i = 0; i < changes; ++i) {
    if (is_control(bytes) && random_.chance(0.6)) {
      change_body_field(bytes, random_);
    } else {
      change_field(bytes);
    }
  }
  forget_nonce(bytes, random_);
  return bytes;
}

Packet Hostile::captured_packet() {
  if (joins_.empty() || random_.chance(0.5)) return captured_[random_.below(captured_.size())];
  const auto kept =
      std::next(joins_.begin(), static_cast<std::ptrdiff_t>(random_.below(joins_.size())));
  if (kept->second.empty()) return captured_[random_.below(captured_.size())];
  return {kept->first.first, kept->first.second, any_of(kept->second)};
}

Packet Hostile::of_an_earlier_life() {
  Packet packet = captured_[random_.below(captured_.size())];
  if (packet.bytes.size() < ATP_HEADER_BYTES) return packet;
  std::uint8_t* incarnation = packet.bytes.data() + ATP_AT_INCARNATION;
  atp_store32(incarnation, atp_load32(incarnation) - kEarlier);
  return packet;
}

Hostile::Bytes Hostile::of_a_child(const Endpoint& child, const RankSet& own) {
  Bytes bytes = captured_gradient(child);
  if (bytes.empty()) return noise_of_a_member();
  switch (random_.below(7)) {
    case 0: change_length(bytes); break;
    case 6: bytes[ATP_AT_HOPS] = 0; break;
    case 1: {  // a type that only travels downward, or none at all
      constexpr std::array<std::uint8_t, 6> kTypes{ATP_PARAMETER, ATP_FLUSH,  ATP_NACK,
                                                   ATP_JOIN_ACK,  ATP_STATUS, ATP_PACKET_TYPES};
      bytes[ATP_AT_TYPE] = kTypes[random_.below(kTypes.size())];
      break;
    }
    case 2: {  // ranks that are not its own, of the job or beyond
      std::uint64_t ranks = random_.next() & (random_.chance(0.5) ? 0xff : ~std::uint64_t{0});
      if ((ranks & ~own.words()[0]) == 0) ranks = ~own.words()[0];
      atp_store64(bytes.data() + ATP_AT_BITMAP, ranks);
      break;
    }
    case 3:  // an earlier or later incarnation of the job, or another job
      atp_store32(bytes.data() + (random_.chance(0.8) ? ATP_AT_INCARNATION : ATP_AT_JOB),
                  static_cast<std::uint32_t>(random_.next()));
      break;
    case 4:  // far outside the ring
      atp_store64(bytes.data() + ATP_AT_SEQUENCE,
                  atp_load64(bytes.data() + ATP_AT_SEQUENCE) + 1000000 + random_.next() / 2);
      break;
    default: return noise_of_a_member();
  }
  return bytes;
}

Hostile::Bytes Hostile::control_of_a_child(const Endpoint& child, const Endpoint& parent) {
  const std::vector<Bytes>& kept = joins_[{child, parent}];
  if (kept.empty()) return noise_of_a_member();
  Bytes join = any_of(kept);
  switch (random_.below(5)) {
    case 0: make_body_unreadable(join, random_); return join;
    case 1: change_length(join); return join;
    case 2: join = leave_of(join); break;
    case 3:  // what only travels downward
      join[ATP_AT_TYPE] = random_.chance(0.5) ? ATP_JOIN_ACK : ATP_STATUS;
      break;
    default: change_body_field(join, random_);
  }
  if (random_.chance(0.5)) change_body_field(join, random_);
  forget_nonce(join, random_);
  return join;
}

template <class Change>
Hostile::Bytes Hostile::changed_join(const Endpoint& child, const Endpoint& parent,
                                     Change&& change) {
  const std::vector<Bytes>& kept = joins_[{child, parent}];
  if (kept.empty()) return noise_of_a_member();
  const Bytes& bytes = any_of(kept);
  const ParsedPacket parsed = parse_packet(bytes);
  std::optional<Join> join = parsed.ok() ? Join::read(parsed.view().body) : std::nullopt;
  if (!join || join->remaining.size() < 2) return noise_of_a_member();
  ControlHead head{.type = PacketType::kJoin,
                   .bitmap_words = parsed.view().header.bitmap_words,
                   .job = parsed.view().job(),
                   .stream = parsed.view().header.stream};
  change(head, *join);
  Outbox out(1, 2000);
  put_join(out, head, parsed.view().ranks, *join);
  out.send_to(parent);
  const std::span<const std::uint8_t> written = out.bytes_of(out.packets()[0]);
  return {written.begin(), written.end()};
}

Hostile::Bytes Hostile::join_astray(const Endpoint& child, const Endpoint& parent) {
  return changed_join(child, parent, [&](ControlHead& head, Join& join) {
    head.job.incarnation = static_cast<std::uint32_t>(random_.next());
    join.nonce = random_.next();
    const Route route = join.remaining;
    switch (random_.below(5)) {
      case 0: join.recorded.push_back(route[0]); break;   // it has already been here
      case 1: join.recorded.push_back(route[1]); break;   // it has already been at the next hop
      case 2: join.remaining.push_back(route[0]); break;  // it will come here again
      default:
        join.remaining.clear();
        join.remaining.push_back(route[0]);
        // Back to its sender, or out of the network.
        join.remaining.push_back(random_.chance(0.5) ? child : Endpoint::ipv4(192, 0, 2, 1, 5500));
    }
  });
}

Hostile::Bytes Hostile::join_by(const Endpoint& child, const Endpoint& parent, const Route& route) {
  return changed_join(child, parent, [&](ControlHead&, Join& join) { join.remaining = route; });
}

Hostile::Bytes Hostile::phantom_join(const Endpoint& child, const Endpoint& parent,
                                     const Route& route) {
  return changed_join(child, parent, [&](ControlHead&, Join& join) {
    join.remaining = route;
    join.nonce = random_.next();
    join.server_boot_id = 0;
  });
}

void Hostile::note_sent(const Packet& join) { keep(sent_, join, random_); }

std::optional<Packet> Hostile::proven_join(const Packet& answer) const {
  const ParsedPacket parsed = parse_packet(answer.bytes);
  if (!parsed.ok() || parsed.view().type() != PacketType::kStatus) return std::nullopt;
  const std::optional<StatusMessage> status = StatusMessage::read(parsed.view());
  if (!status || status->code != StatusCode::kProve) return std::nullopt;
  for (const Packet& join : sent_) {
    if (join.from != answer.to || join.to != answer.from) continue;
    const std::size_t body = atp_body_offset(join.bytes[ATP_AT_BITMAP_WORDS]);
    if (atp_load64(&join.bytes[body + join_field::kNonce.offset]) != status->nonce) continue;
    Packet proven = join;
    atp_store64(&proven.bytes[body + join_field::kProof.offset], status->proof());
    return proven;
  }
  return std::nullopt;
}

Hostile::Bytes Hostile::control_of_a_parent(const RankSet& behind) {
  Outbox out(1, 2000);
  const ParsedPacket parsed = parse_packet(any_of(controls_));
  if (!parsed.ok()) return noise();
  const ControlHead head{.bitmap_words = parsed.view().header.bitmap_words,
                         .job = parsed.view().job()};
  // Only codes that concern a single JOIN or LEAVE.
  constexpr std::array kCodes{StatusCode::kRefused, StatusCode::kRankTaken, StatusCode::kLeft,
                              StatusCode::kVersions, StatusCode::kDetached};
  StatusMessage status;
  status.code = kCodes[random_.below(kCodes.size())];
  status.about = behind;
  status.nonce = random_.next() | 1;
  put_status(out, head, behind, status);
  out.send_to({});
  const std::span<const std::uint8_t> message = out.bytes_of(out.packets()[0]);
  Bytes bytes(message.begin(), message.end());
  switch (random_.below(4)) {
    case 0: make_body_unreadable(bytes, random_); break;
    case 1: change_length(bytes); break;
    case 2:  // what only travels upward
      bytes[ATP_AT_TYPE] = random_.chance(0.5) ? ATP_JOIN : ATP_LEAVE;
      break;
    default: break;
  }
  return bytes;
}

Hostile::Bytes Hostile::captured() { return captured_[random_.below(captured_.size())].bytes; }

Hostile::Bytes Hostile::captured_gradient(const Endpoint& from) {
  const std::vector<Bytes>& kept = gradients_[from];
  return kept.empty() ? Bytes{} : any_of(kept);
}

const Hostile::Bytes& Hostile::any_of(const std::vector<Bytes>& kept) {
  return kept[random_.below(kept.size())];
}

void Hostile::change_field(Bytes& bytes) {
  if (random_.chance(0.1)) return change_length(bytes);
  if (random_.chance(0.1) && bytes.size() > 48) {
    bytes[48 + random_.below(bytes.size() - 48)] ^=
        static_cast<std::uint8_t>(1 + random_.below(255));
    return;
  }
  const Field field = kFields[random_.below(kFields.size())];
  for (std::size_t i = 0; i < field.width && field.offset + i < bytes.size(); ++i) {
    std::uint8_t& byte = bytes[field.offset + i];
    byte = random_.chance(0.5) ? static_cast<std::uint8_t>(random_.next())
                               : static_cast<std::uint8_t>(byte ^ (1U << random_.below(8)));
  }
}

void Hostile::change_length(Bytes& bytes) {
  const std::size_t old = bytes.size();
  const std::size_t most = random_.chance(0.5) ? old : old + 64;
  bytes.resize(random_.below(most + 1));
  if (bytes.size() == old) bytes.push_back(0);
}

}  // namespace atp::sim
