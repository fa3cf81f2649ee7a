#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <vector>

#include "atp/wire/packet.h"

// For tests: the circumstances in which a message may reach a node. They are the columns of a table
// whose rows are the types of messages, and whose cells are the node's reactions.

namespace atp {

// Where the message's sequence is relative to the node's state.
enum class When : std::uint8_t { kPast, kExpected, kFuture };

struct Circumstance {
  const char* name = "";
  When when = When::kExpected;
  void (*change)(atp_header& h) = [](atp_header&) {};
  int times = 1;  // how many times it arrives
  bool from_stranger = false;
};

inline constexpr Circumstance kCircumstances[] = {
    {.name = "past", .when = When::kPast},
    {.name = "expected"},
    {.name = "future", .when = When::kFuture},
    {.name = "duplicate", .times = 2},
    {.name = "foreign job", .change = [](atp_header& h) { ++h.job; }},
    {.name = "foreign incarnation", .change = [](atp_header& h) { ++h.incarnation; }},
    {.name = "wrong operation", .change = [](atp_header& h) { ++h.operation; }},
    {.name = "wrong source", .from_stranger = true},
};

// The counter that is incremented in each circumstance, in order: kDrop… if the packet is dropped,
// another one if it is not.
template <class Counter>
using Fates = std::array<Counter, std::size(kCircumstances)>;

// The message as it arrives in the circumstance. `move(header, when)` sets its sequence.
template <class Move>
std::vector<std::uint8_t> in_circumstance(const Circumstance& circumstance,
                                          std::vector<std::uint8_t> bytes, Move&& move) {
  atp_header h;
  atp_read_header(bytes.data(), &h);
  if (circumstance.when != When::kExpected) move(h, circumstance.when);
  circumstance.change(h);
  atp_write_header(bytes.data(), &h);
  return bytes;
}

}  // namespace atp
