// What the network does with the packets that the nodes send.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "atp/base/check.h"
#include "atp/sim/display.h"
#include "atp/sim/path.h"
#include "atp/sim/probes.h"
#include "atp/sim/world.h"
#include "atp/wire/packet.h"

namespace atp::sim {
namespace {

std::uint64_t mixed(std::uint64_t digest, std::uint64_t word) {
  digest = (digest ^ word) * 0x9e3779b97f4a7c15;
  return digest ^ (digest >> 29);
}

std::uint64_t digest_of(std::span<const std::uint8_t> bytes) {
  std::uint64_t digest = bytes.size();
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min<std::size_t>(8, bytes.size() - at));
    digest = mixed(digest, word);
  }
  return digest;
}

Endpoint enemy() { return Endpoint::ipv4(10, 9, 9, 9, 4000); }

}  // namespace

void World::send_outbox(HostId host) {
  constexpr std::uint32_t kNone = ~std::uint32_t{0};
  const Within part(Part::kNetwork);
  std::uint32_t payload = kNone;
  std::uint32_t offset = kNone;
  for (const OutPacket& packet : outbox_.packets()) {
    // Copies of one message are adjacent and share its bytes.
    if (packet.offset != offset || payload == kNone) {
      if (payload != kNone) network_.drop_payload(payload);
      payload = network_.put_payload(outbox_.bytes_of(packet));
      offset = packet.offset;
    }
    send(host, packet.to, payload, packet.length);
  }
  if (payload != kNone) network_.drop_payload(payload);
  outbox_.clear();
}

void World::send(HostId host, const Endpoint& to, std::uint32_t payload, std::uint32_t length) {
  const Endpoint& from = hosts_[host].endpoint;
  ++packets_sent_;
  Network::Flight flight{
      .from = from, .to = to, .sender = host, .payload = payload, .length = length};
  const std::span<const std::uint8_t> bytes = network_.bytes_of(flight);
  if (digest_) digest_ = mixed(mixed(*digest_, static_cast<std::uint64_t>(now_)), digest_of(bytes));
  if (plan_.hostile > 0) prove_hostile(from, to, bytes);
  const std::optional<HostId> receiver = host_at(to);
  if (!receiver) return;
  flight.receiver = *receiver;
  if (nothing_interferes()) return network_.send(now_, flight, 0);
  Verdict verdict;
  if (tap_ || plan_.hostile > 0) {
    const Packet packet{from, to, {bytes.begin(), bytes.end()}};
    if (tap_) verdict = tap_(packet);
    if (plan_.hostile > 0) send_hostile(packet);
  }
  Fate fate;
  if (!verdict.drop) {
    if (paths_.empty()) {
      fate.set_out(Duration{0});
    } else {
      fate = path(host, *receiver).send(now(), random_, faults_);
    }
  }
  if (trace_) {
    trace(fate.copies == 0   ? "LOST"
          : fate.copies == 1 ? "sent"
                             : "TWICE",
          from, to, network_.bytes_of(flight));
  }
  send_copies(flight, fate, verdict.delay);
  for (std::uint32_t i = 0; i < verdict.extra_copies; ++i) network_.send(now_, flight, 0);
}

void World::send_copies(const Network::Flight& flight, const Fate& fate, Duration delay) {
  for (std::size_t i = 0; i < fate.copies; ++i) {
    if (i == 0 && fate.corrupted && is_damaged(flight)) continue;
    Network::Flight copy = flight;
    if (i == 0 && fate.truncated) {
      copy.length = static_cast<std::uint32_t>(random_.below(flight.length));
    }
    network_.send(now_, copy, picoseconds(fate.waits[i] + delay));
  }
}

// Damages a copy, as a link might, and returns whether the receiver's checksum detects it.
bool World::is_damaged(const Network::Flight& flight) {
  const std::span<const std::uint8_t> bytes = network_.bytes_of(flight);
  scratch_.assign(bytes.begin(), bytes.end());
  damage(scratch_, random_);
  const bool seen = ones_complement_sum(scratch_) != ones_complement_sum(bytes);
  ATP_CHECK(seen || bytes.size() < 2);
  return seen;
}

// An attacker can send from an unused address, and an earlier incarnation's packets may still be in
// flight. It sends only JOINs that change nothing or move a rank: the protocol does not defend
// against a table full of strangers' jobs (docs/inside/protocol §9).
void World::send_hostile(const Packet& packet) {
  hostile_.capture(packet);
  if (now() >= Instant{plan_.heal} || !random_.chance(plan_.hostile)) return;
  if (random_.chance(0.2)) return send_misdirected();
  const bool earlier = random_.chance(0.4);
  const std::optional<HostId> sender = host_at(packet.from);
  const bool is_member = sender && std::holds_alternative<Member>(hosts_[*sender].node);
  if (is_member && random_.chance(0.1)) send_phantom(packet, *sender);
  const bool dishonest = !earlier && sender && random_.chance(0.5) &&
                         std::holds_alternative<Member>(hosts_[*sender].node);
  const auto random_host = static_cast<HostId>(random_.below(hosts_.size()));
  if (dishonest && random_.chance(0.3)) return send_roaming_join(packet, *sender);
  Packet bad = earlier     ? hostile_.of_an_earlier_life()
               : dishonest ? dishonest_packet(packet, *sender)
                           : Packet{enemy(), hosts_[random_host].endpoint, hostile_.foreign()};
  const bool is_join = bad.bytes.size() > ATP_AT_TYPE && bad.bytes[ATP_AT_TYPE] == ATP_JOIN;
  if (is_join) return;
  faults_.add(earlier ? Fault::kEarlierLife : dishonest ? Fault::kDishonest : Fault::kForeign);
  inject(bad.from, bad.to, bad.bytes, Duration{static_cast<Duration::rep>(random_.below(1000000))});
}

// The attacker sends a JOIN of its own again, with the proof for which it is asked.
void World::prove_hostile(const Endpoint& node, const Endpoint& to,
                          std::span<const std::uint8_t> bytes) {
  if (bytes[ATP_AT_TYPE] != ATP_STATUS || now() >= Instant{plan_.heal}) return;
  const auto join = hostile_.proven_join({node, to, {bytes.begin(), bytes.end()}});
  if (join) inject(join->from, join->to, join->bytes, plan_.fabric.longest_delay());
}

void World::send_hostile_join(const Packet& join) {
  hostile_.note_sent(join);
  inject(join.from, join.to, join.bytes,
         Duration{static_cast<Duration::rep>(random_.below(1000000))});
}

// A captured packet, unchanged and from its sender's address, to a node for which it was not meant.
void World::send_misdirected() {
  const Packet captured = hostile_.captured_packet();
  const Endpoint& to = hosts_[static_cast<HostId>(random_.below(hosts_.size()))].endpoint;
  if (to == captured.to || to == captured.from) return;
  faults_.add(Fault::kMisdirected);
  inject(captured.from, to, captured.bytes,
         Duration{static_cast<Duration::rep>(random_.below(1000000))});
}

// Some JOINs for ranks of a job that has begun, so that all its ranks are held, at any of its
// switches. Only while no process of the job may end, which would free its rank.
void World::send_phantom(const Packet& packet, HostId member) {
  const Application& application = std::get<Member>(hosts_[member].node).application;
  const bool is_stable =
      application.joined() &&
      std::none_of(plan_.outages.begin(), plan_.outages.end(), [&](const Outage& outage) {
        return outage.kind == Outage::Kind::kDeath &&
               !std::holds_alternative<SwitchNode>(hosts_[outage.host].node);
      });
  const std::optional<HostId> parent = host_at(packet.to);
  if (!is_stable || !parent || !std::holds_alternative<SwitchNode>(hosts_[*parent].node)) return;
  const JobPlan& job = plan_.jobs[application.job()];
  Route route;
  const auto first = static_cast<int>(random_.below(plan_.switches));
  for (const std::uint32_t at : plan_.switches_from(job, first)) {
    route.push_back(hosts_[switch_host(at)].endpoint);
  }
  route.push_back(hosts_[server_host(job.server)].endpoint);
  faults_.add(Fault::kPhantom);
  for (std::uint64_t joins = 1 + random_.below(3); joins > 0; --joins) {
    send_hostile_join(
        {enemy(), route.front(), hostile_.phantom_join(packet.from, packet.to, route)});
  }
}

// A member's JOIN on a path that no honest one takes: with a bad route, or through another switch,
// so that its rank moves there until its next JOIN.
void World::send_roaming_join(const Packet& packet, HostId member) {
  const std::optional<HostId> parent = host_at(packet.to);
  if (!parent || !std::holds_alternative<SwitchNode>(hosts_[*parent].node)) return;
  const JobPlan& job = plan_.jobs[std::get<Member>(hosts_[member].node).application.job()];
  Route route;
  const auto first = static_cast<std::uint32_t>(random_.below(plan_.switches));
  for (const std::uint32_t at : plan_.switches_from(job, static_cast<int>(first))) {
    route.push_back(hosts_[switch_host(at)].endpoint);
  }
  route.push_back(hosts_[server_host(job.server)].endpoint);
  const bool moves = random_.chance(0.7) && route.front() != packet.to;
  faults_.add(moves ? Fault::kMove : Fault::kDishonest);
  const auto bytes = moves ? hostile_.join_by(packet.from, packet.to, route)
                           : hostile_.join_astray(packet.from, packet.to);
  send_hostile_join({packet.from, moves ? route.front() : packet.to, bytes});
}

// A dishonest packet that a member sends in addition to this packet of its own.
Packet World::dishonest_packet(const Packet& packet, HostId member) {
  const RankSet own = RankSet::of(std::get<Member>(hosts_[member].node).application.rank());
  return {packet.from, packet.to,
          random_.chance(0.7) ? hostile_.of_a_child(packet.from, own)
                              : hostile_.control_of_a_child(packet.from, packet.to)};
}

void World::inject(const Endpoint& from, const Endpoint& to, std::span<const std::uint8_t> bytes,
                   Duration delay) {
  const std::optional<HostId> receiver = host_at(to);
  if (!receiver) return;
  Network::Flight flight{.from = from, .to = to, .receiver = *receiver};
  flight.payload = network_.put_payload(bytes);
  flight.length = static_cast<std::uint32_t>(bytes.size());
  network_.send(now_, flight, picoseconds(delay));
  network_.drop_payload(flight.payload);
}

void World::dead(std::uint32_t index, HostId host) {
  const Network::Flight& flight = network_.flight(index);
  if (std::holds_alternative<SwitchNode>(hosts_[host].node)) faults_.add(Fault::kDeadSwitchPacket);
  const bool reported = flight.sender != kNoHost && plan_.report_unreachable > 0 &&
                        random_.chance(plan_.report_unreachable);
  if (!reported) return network_.end_flight(index);
  faults_.add(Fault::kUnreachable);
  network_.again(now_ + picoseconds(plan_.fabric.longest_delay()),
                 {Network::EventKind::kUnreachable, index});
}

// Sets ECN, as a congested link of a programmable switch would.
std::span<const std::uint8_t> World::marked(std::span<const std::uint8_t> bytes) {
  scratch_.assign(bytes.begin(), bytes.end());
  mark_ecn(scratch_);
  return scratch_;
}

std::optional<World::HostId> World::host_at(const Endpoint& endpoint) const {
  const std::optional<HostId> host = host_ids_.find(endpoint);
  return host && hosts_[*host].endpoint == endpoint ? host : std::nullopt;
}

void World::trace(const char* what, const Endpoint& from, const Endpoint& to,
                  std::span<const std::uint8_t> bytes) {
  std::printf("%s %-5s %s > %s %s\n", display(now()).c_str(), what, name_of(from).c_str(),
              name_of(to).c_str(), display(bytes).c_str());
}

}  // namespace atp::sim
