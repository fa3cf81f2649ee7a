#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "atp/base/random.h"
#include "atp/core/dataplane/switch_node.h"
#include "atp/core/outbox.h"
#include "atp/core/server/server.h"
#include "atp/core/worker/worker.h"
#include "atp/sim/application.h"
#include "atp/sim/faults.h"
#include "atp/sim/hostile.h"
#include "atp/sim/network.h"
#include "atp/sim/oracle.h"
#include "atp/sim/path.h"
#include "atp/sim/plan.h"
#include "atp/sim/server_judge.h"
#include "atp/sim/switch_judge.h"
#include "atp/sim/worker_judge.h"

// The simulator: a clock that only moves from one event to the next, a network of links between
// racks, and the very Worker, SwitchNode and Server of the product, each run by the loop of
// atp/core/README.md. One thread, one source of random numbers: a plan and its seed give the same
// packets at the same picoseconds everywhere, so a failure is replayed by its seed alone.
//
// Faults come from the plan, from a tap that a scenario sets, or by hand (kill, pause, clog). After
// the heal time nothing more goes wrong, except that what is dead may stay dead, and completion is
// demanded within a bounded virtual time: the exact sum on every rank. Only a job that lost a
// worker or its server may end otherwise, on every survivor with the error that names what was
// lost.
//
// Five source files: world.cc the clock and the driving loop, world_wire.cc packets and their
// faults, world_setup.cc making and breaking nodes, world_watch.cc the judges of each turn,
// world_report.cc the judgement at the end.

namespace atp::sim {

// What a tap may do to a packet that is about to be sent.
struct Verdict {
  bool drop = false;
  Duration delay{};
  std::uint32_t extra_copies = 0;
};

class World {
 public:
  using HostId = sim::HostId;
  using Tap = std::function<Verdict(const Packet&)>;

  explicit World(Plan plan);

  Instant now() const { return instant(now_); }
  void set_trace(bool on) { trace_ = on; }
  const Plan& plan() const { return plan_; }

  // Runs until done() holds (asked after every event), or until `limit`; says whether it held.
  bool run(Duration limit, const std::function<bool()>& done);
  void run_for(Duration time);
  // Everything is completed at every worker, or has failed where it may; within the plan's bound.
  bool run_to_completion();
  // May the operations of this job fail: has it lost a worker or its server?
  bool may_fail(std::uint32_t job) const;
  // All sums are in: every aggregator must come free; all leave: nobody may hold the job. Reports
  // what is left over as a violation.
  void check_release();
  void check_departure();
  std::size_t aggregators_in_use() const;  // of all switches
  std::size_t jobs_held() const;           // by the server and all switches

  // Does it hold for the application of every worker that is alive?
  bool all(bool (Application::*property)() const) const;

  // Hosts: servers, switches, then the workers of job 0 by rank, of job 1, …
  HostId server_host(std::uint32_t index = 0) const { return index; }
  HostId switch_host(std::uint32_t index) const { return plan_.servers + index; }
  HostId worker_host(Rank rank, std::uint32_t job = 0) const;
  const Endpoint& endpoint(HostId host) const { return hosts_[host].endpoint; }
  std::size_t host_count() const { return hosts_.size(); }

  Server& server(std::uint32_t index = 0) { return std::get<Server>(hosts_[index].node); }
  SwitchNode& switch_node(std::uint32_t index = 0) {
    return std::get<SwitchNode>(hosts_[switch_host(index)].node);
  }
  Worker& worker(Rank rank, std::uint32_t job = 0) {
    return std::get<Member>(hosts_[worker_host(rank, job)].node).worker;
  }
  Application& application(Rank rank, std::uint32_t job = 0) {
    return std::get<Member>(hosts_[worker_host(rank, job)].node).application;
  }

  // After something was asked of an application by hand.
  void wake_application(Rank rank, std::uint32_t job = 0) {
    wake_at(worker_host(rank, job), now());
  }

  // Faults by hand.
  void set_tap(Tap tap) { tap_ = std::move(tap); }
  void kill(HostId host);
  void restart_switch(std::uint32_t index);
  void restart_server(std::uint64_t boot_id, std::uint32_t index = 0);
  // Another start of the rank's process, with all its sockets.
  void restart_worker(HostId host);
  void pause(HostId host, Duration length);
  void clog(HostId from, HostId to, Duration length);
  void cut(HostId from, HostId to, Duration length);
  void at(Instant when, std::function<void()> action);
  // Puts bytes on the wire, as anybody could.
  void inject(const Endpoint& from, const Endpoint& to, std::span<const std::uint8_t> bytes,
              Duration delay = Duration{0});

  FaultCounters faults() const;
  // Of all nodes of a kind, and of all lives of switches and servers.
  Counters<SwitchCounter> switch_counters() const;
  Counters<ServerCounter> server_counters() const;
  Counters<WorkerCounter> worker_counters() const;
  const Oracle& oracle() const { return oracle_; }
  const Network& network() const { return network_; }
  std::uint64_t packets_sent() const { return packets_sent_; }
  // A digest of every packet and the time of its sending, from here on.
  void start_digest() { digest_ = 0; }
  std::uint64_t digest() const { return digest_.value(); }
  // Has a stream of a watched worker begun below this sequence and gone past it?
  bool passes(std::uint64_t sequence) const;
  // All that went against the oracle or the invariants so far.
  std::vector<std::string> violations() const;
  // Who still waits for what: for the report of a run that did not finish.
  std::string unfinished() const;
  std::string name_of(const Endpoint& endpoint) const;

 private:
  struct Member {
    Worker worker;
    Application application;
  };
  struct Host {
    Endpoint endpoint;
    std::variant<Server, SwitchNode, Member> node;
    bool alive = true;
    bool returns = false;  // dead, and another start of it will come
    Instant paused_until{};
    Instant wake = kNever;         // what the node and its application asked for
    Picoseconds armed = kNeverPs;  // when the queue will ask whether that is due
  };

  // world_setup.cc
  void add_worker(std::uint32_t job, Rank rank);
  void make_paths();
  Path& path(HostId from, HostId to);
  void schedule(const Outage& outage);
  void revive(HostId host);
  void lose(HostId host);
  bool same_process(HostId a, HostId b) const;
  void heal();

  // world.cc
  bool run_until(Instant end, const std::function<bool()>& done, bool after_news_only);
  Instant due(const Host& host) const { return std::max(host.wake, host.paused_until); }
  std::optional<Network::Event> take_next(Picoseconds end);
  void wake_at(HostId host, Instant when);
  void arm(HostId host);
  void handle(const Network::Event& event);
  void handle_timer(HostId host);
  void wake(HostId host);
  void deliver(std::uint32_t flight);
  void hand_over(HostId host, const Endpoint& from, std::span<const std::uint8_t> bytes);
  void deliver_unreachable(std::uint32_t flight);
  // After every call of a node: sends its outbox, and drives a worker until it has no more to do.
  void settle(HostId host);
  void settle_worker(HostId host, Member& member);

  // world_watch.cc: before and after a turn, because of a packet, a timer (from nobody) or an ICMP
  // error (without bytes), which runs no timer of the node
  void make_judge(HostId host);
  void judge_anew(HostId host);
  void begin_turn(HostId host, const Endpoint& from, std::span<const std::uint8_t> bytes);
  void end_turn(HostId host, const Endpoint& from, std::span<const std::uint8_t> bytes);
  void add_objections(std::vector<std::string>& all) const;
  std::size_t number_of_worker(HostId host) const { return host - switch_host(plan_.switches); }

  // world_wire.cc
  std::optional<HostId> host_at(const Endpoint& endpoint) const;
  void send_outbox(HostId host);
  void send(HostId host, const Endpoint& to, std::uint32_t payload, std::uint32_t length);
  bool nothing_interferes() const {
    return paths_.empty() && !tap_ && plan_.hostile == 0 && !trace_;
  }
  void send_copies(const Network::Flight& flight, const Fate& fate, Duration delay);
  bool is_damaged(const Network::Flight& flight);
  void send_hostile(const Packet& packet);
  void send_roaming_join(const Packet& packet, HostId member);
  Packet dishonest_packet(const Packet& packet, HostId member);
  void dead(std::uint32_t flight, HostId host);
  std::span<const std::uint8_t> marked(std::span<const std::uint8_t> bytes);
  void trace(const char* what, const Endpoint& from, const Endpoint& to,
             std::span<const std::uint8_t> bytes);

  // world_report.cc
  bool settled(const Host& host) const;
  std::optional<std::string> objection(const Application& application) const;

  Plan plan_;
  Picoseconds now_ = 0;
  Random random_;
  Oracle oracle_;
  std::vector<Host> hosts_;
  EndpointMap host_ids_;
  Network network_;
  // By host of the kind, if the plan has them watched.
  std::vector<ServerJudge> server_judges_;
  std::vector<SwitchJudge> switch_judges_;
  std::vector<WorkerJudge> worker_judges_;
  std::vector<Path> paths_;  // from · hosts + to; empty while no path has faults
  std::vector<std::function<void()>> actions_;
  Tap tap_;
  Outbox outbox_;
  bool outbox_is_small_ = plan_.outbox_packets < Plan{}.outbox_packets;  // until the faults stop
  std::vector<std::uint8_t> scratch_;
  FaultCounters faults_;
  std::vector<RankSet> lost_ranks_;  // by job
  std::vector<bool> lost_servers_;
  Hostile hostile_;
  Counters<SwitchCounter> past_switches_;
  Counters<ServerCounter> past_servers_;
  std::vector<std::string> violations_;
  std::uint64_t packets_sent_ = 0;
  std::optional<std::uint64_t> digest_;
  std::uint64_t wakes_at_this_instant_ = 0;
  Picoseconds last_wake_ = 0;
  bool news_ = true;      // an application has changed since it was last asked
  bool is_over_ = false;  // all operations have come to their end
  bool trace_ = false;
};

}  // namespace atp::sim
