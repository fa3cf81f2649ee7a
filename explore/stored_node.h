#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "explore/node.h"

// Nodes as states: stored, restored and compared.
//
// Two nodes are the same state if the product's own == says so, after clearing members that are
// written and never read: counters, and data for displays only (the progress of a job, the number
// of packets in a sum). Nothing else is left out, quantized or made relative, so states that a
// later packet or time could distinguish are never merged. Times are those of the world's clock.
//
// A node's state is private, and nothing else needs to hash or clear it. So stored_node.cc accesses
// it from outside, by a means that C++ provides: access is not checked in an explicit
// instantiation.

namespace atp::explore {

// Facts about a node that the world needs again and again.
struct Facts {
  Instant due = kNever;
  bool finished = true;   // worker: all its operations are complete
  bool clean = true;      // worker: it is attached; switch: no aggregator is in use
  std::size_t ranks = 0;  // switch or server: how many are attached
  std::uint64_t map = 0;  // worker: a digest of its next aggregator indices
};

// All visited states of one host, numbered from 0.
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
// A fragment of a stream (as on the wire); null if the server has nothing of it.
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

}  // namespace atp::explore
