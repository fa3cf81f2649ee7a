// How a packet moves from link to link, and what the queue of events holds meanwhile.
#include "atp/sim/network.h"

#include "atp/base/check.h"

namespace atp::sim {

void Network::add_rack(const LinkPlan& link) {
  racks_.push_back(make_port(static_cast<std::uint32_t>(racks_.size()), link));
}

HostId Network::add_host(std::uint32_t rack, const LinkPlan& link, const LinkPlan& rack_link) {
  while (racks_.size() <= rack) add_rack(rack_link);
  hosts_.push_back(make_port(rack, link));
  return static_cast<HostId>(hosts_.size() - 1);
}

Network::Port Network::make_port(std::uint32_t rack, const LinkPlan& plan) {
  if (plan.absent()) return {rack, kNoLink, kNoLink};
  ATP_CHECK(links_.size() + 2 < kNoLink);
  const auto up = static_cast<std::uint16_t>(links_.size());
  LinkPlan sending = plan;
  sending.packet_time = Duration{};  // only receiving takes the host time
  links_.emplace_back(sending);
  links_.emplace_back(plan);
  return {rack, up, static_cast<std::uint16_t>(up + 1)};
}

std::uint32_t Network::put_payload(std::span<const std::uint8_t> bytes) {
  if (free_payloads_.empty()) {
    free_payloads_.push_back(static_cast<std::uint32_t>(payloads_.size()));
    payloads_.emplace_back();
  }
  const std::uint32_t index = free_payloads_.back();
  free_payloads_.pop_back();
  payloads_[index].bytes.assign(bytes.begin(), bytes.end());
  payloads_[index].users = 1;
  return index;
}

void Network::drop_payload(std::uint32_t payload) {
  if (--payloads_[payload].users == 0) free_payloads_.push_back(payload);
}

void Network::find_way(Flight& flight) const {
  const auto pass = [&](std::uint16_t link) {
    if (link != kNoLink) flight.links[flight.hops++] = link;
  };
  if (flight.sender == kNoHost) return;
  const Port& from = hosts_[flight.sender];
  const Port& to = hosts_[flight.receiver];
  pass(from.up);
  if (from.rack != to.rack) {
    pass(racks_[from.rack].up);
    pass(racks_[to.rack].down);
  }
  pass(to.down);
}

void Network::send(Picoseconds now, Flight flight, Picoseconds wait) {
  find_way(flight);
  hold_payload(flight.payload);
  if (free_flights_.empty()) {
    free_flights_.push_back(static_cast<std::uint32_t>(flights_.size()));
    flights_.emplace_back();
  }
  const std::uint32_t index = free_flights_.back();
  free_flights_.pop_back();
  flights_[index] = flight;
  if (wait > 0 || !step(now, index)) queue_.push(now + wait, {EventKind::kFlight, index});
}

void Network::end_flight(std::uint32_t index) {
  drop_payload(flights_[index].payload);
  free_flights_.push_back(index);
}

bool Network::step(Picoseconds now, std::uint32_t index) {
  Flight& flight = flights_[index];
  if (flight.hop == flight.hops) return false;
  const std::uint16_t at = flight.links[flight.hop++];
  Link& link = links_[at];
  const bool was_idle = link.idle();
  const std::uint64_t number = queue_.take_number();
  switch (link.offer(now, flight.length, number, index)) {
    case Link::Offer::kLost:
      ++lost_;
      end_flight(index);
      return true;
    case Link::Offer::kMarked:
      ++marked_;
      flight.marked = true;
      break;
    case Link::Offer::kTaken: break;
  }
  if (was_idle) queue_.push({link.first().arrival, number, {EventKind::kLink, at}});
  return true;
}

std::optional<Network::Event> Network::take_next(Picoseconds end) {
  while (queue_.next() <= end) {
    const auto& first = queue_.first();
    now_ = first.when;
    Event event = first.event;
    if (event.kind == EventKind::kLink) {
      Link& link = links_[event.index];
      event = {EventKind::kFlight, link.first().flight};
      link.take_first();
      ++steps_;
      if (link.idle()) {
        queue_.pop();
      } else {
        const Link::Waiting& next = link.first();
        queue_.replace_first({next.arrival, next.number, first.event});
      }
    } else {
      queue_.pop();
    }
    if (event.kind == EventKind::kFlight && step(now_, event.index)) continue;
    return event;
  }
  return std::nullopt;
}

void Network::lift_queue_limits() {
  for (Link& link : links_) link.lift_queue_limit();
}

}  // namespace atp::sim
