#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/node.h"

// Nodes as states: stored, restored and compared.
//
// Two nodes are one state if the product's own == says so, after what is written and never read was
// cleared: counters, and what only displays show (the progress of a job, of how many packets a sum
// was made). Nothing else is left out, quantized or made relative, so no two states are merged that
// a later packet or moment could tell apart. Times are those of the world's clock.
//
// What a node holds is private to it, and hashing and clearing are needed by nobody else. So
// stored_node.cc opens it from outside, in a way that C++ provides for: access is not checked in an
// explicit instantiation.

namespace atp::models {

// What of a node the world asks for again and again.
struct Facts {
  Instant due = kNever;
  bool finished = true;   // of a worker: all its operations
  bool clean = true;      // of a worker: it is attached; of a switch: no aggregator is in use
  std::size_t ranks = 0;  // of a switch or server: those attached
  std::uint64_t map = 0;  // of a worker: where it will send what comes next, as a number
};

// All states of one host that have been met, numbered from 0.
class NodeStore {
 public:
  using Id = std::uint32_t;

  NodeStore();
  ~NodeStore();
  NodeStore(NodeStore&&) noexcept;

  Id put(Node node);
  Node get(Id id) const;
  const Facts& facts(Id id) const { return facts_[id]; }
  std::size_t size() const { return facts_.size(); }

 private:
  struct Stored;
  struct Inside;

  std::unique_ptr<Inside> inside_;
  std::vector<Facts> facts_;
};

// For the properties and the planted bugs: a switch's whole state, and a server's fragments.
SwitchState& inside(SwitchNode& node);
// Of a stream (as on the wire); null if the server holds nothing of it.
Fragment* find_fragment(Server& server, const JobKey& job, std::uint16_t stream,
                        std::uint64_t sequence);

// A complete fragment of a server. It must never change.
struct FinalFragment {
  JobKey job;
  std::uint16_t stream = 0;
  std::uint64_t sequence = 0;
  std::uint32_t next_index = 0;
};
std::vector<FinalFragment> complete_fragments(Server& server);

}  // namespace atp::models
