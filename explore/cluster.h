#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "explore/id_map.h"
#include "explore/packets.h"
#include "explore/plan.h"
#include "explore/stored_node.h"

// The hosts of a world, and every turn that one of them has ever taken. The nodes are
// deterministic, so a turn is a function from a host's state, the time and the input to the next
// state and the packets sent. The real node plays each turn once; after that it is looked up. That
// makes tens of millions of states of a world affordable.

namespace atp::explore {

inline constexpr std::size_t kMaxHosts = 8;

// The result of a turn.
struct Outcome {
  NodeStore::Id node = 0;
  std::uint32_t first_sent = 0;
  std::uint16_t sent = 0;
  std::uint16_t objection = 0;  // the number of its text; 0: nothing is wrong
};

// A rule broken on purpose, to show that the exploration finds it (planted.h).
struct Bug {
  const char* name;
  const char* about;
  const char* world;
  // Called before and after a packet is handled; either may be null.
  void (*before)(Node& node, const PacketView& packet);
  void (*after)(Node& node, const PacketView& packet, std::vector<Packet>& sent);
};

class Cluster {
 public:
  using TimeId = std::uint32_t;

  explicit Cluster(const Plan& plan, const Bug* bug = nullptr);

  HostId host_count() const { return static_cast<HostId>(hosts_.size()); }
  HostId worker_count() const { return worker_count_; }
  bool is_switch(HostId host) const { return host >= worker_count_ && host != host_count() - 1; }
  bool is_worker(HostId host) const { return host < worker_count_; }
  const std::string& name(HostId host) const { return hosts_[host].name; }
  const Endpoint& endpoint(HostId host) const { return hosts_[host].endpoint; }
  const Endpoint& parent(HostId worker) const { return hosts_[worker].parent; }
  // The job of a worker; for a switch or a server, a number that no worker has.
  std::uint32_t job_of(HostId host) const { return hosts_[host].job; }

  // How many ranks it has if nothing is wrong.
  std::size_t ranks_of(HostId host) const { return hosts_[host].ranks; }

  // A newly made node.
  NodeStore::Id fresh(HostId host) const { return hosts_[host].fresh; }
  NodeStore::Id restarted(HostId host) const { return hosts_[host].restarted; }
  const NodeStore& nodes(HostId host) const { return hosts_[host].nodes; }
  const Facts& facts(HostId host, NodeStore::Id node) const {
    return hosts_[host].nodes.facts(node);
  }

  // Times are numbered as well.
  TimeId time_id(Instant when);
  Instant time(TimeId id) const { return times_[id]; }

  const PacketPool& packets() const { return packets_; }

  const Outcome& deliver(PacketPool::Id packet, NodeStore::Id node, TimeId now);
  const Outcome& wake(HostId host, NodeStore::Id node, TimeId now);
  const Outcome& tell_unreachable(HostId worker, NodeStore::Id node, TimeId now);
  // Lets a worker begin to join.
  const Outcome& start(HostId worker, TimeId now);
  std::span<const PacketPool::Id> sent(const Outcome& outcome) const {
    return {sent_.data() + outcome.first_sent, outcome.sent};
  }
  const std::string& objection(const Outcome& outcome) const {
    return objections_[outcome.objection];
  }
  // The packets that a host has put into an outbox.
  std::vector<Packet> packets_in(const Outbox& out, HostId from) const;
  // The number of turns that were played rather than looked up.
  std::size_t turns() const { return outcomes_.size(); }

 private:
  struct Host {
    std::string name;
    Endpoint endpoint;
    std::uint32_t job = ~std::uint32_t{0};
    Endpoint parent;        // of a worker
    std::size_t ranks = 0;  // of a switch or server
    NodeStore nodes;
    NodeStore::Id fresh = 0;
    NodeStore::Id restarted = 0;  // of a switch: as fresh, but with another secret
  };

  void add_host(const std::string& name, const Endpoint& endpoint, Node node);
  void add_workers(const Plan& plan);
  const Outcome& turn(HostId host, NodeStore::Id node, TimeId now, std::uint64_t input);
  Outcome play(HostId host, NodeStore::Id node, TimeId now, std::uint64_t input);
  Outcome keep(HostId host, Node node, const std::vector<Packet>& sent, std::string objection);
  std::string judge(const Packet& packet);

  const Bug* bug_;
  std::deque<JobData> jobs_;
  std::vector<Host> hosts_;
  std::map<Endpoint, HostId> host_ids_;
  HostId worker_count_ = 0;
  Contributions contributions_;
  PacketPool packets_;
  std::vector<Instant> times_;
  std::map<Instant, TimeId> time_ids_;
  IdMap turns_;
  std::deque<Outcome> outcomes_;
  std::vector<PacketPool::Id> sent_;
  std::vector<std::string> objections_{""};
  Outbox outbox_;
};

}  // namespace atp::explore
