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

// The simulator: a clock that moves from one event to the next, a network of links between racks,
// and the product's own Worker, SwitchNode and Server, each run by the loop of atp/core/README.md.
// With one thread and one source of random numbers, a plan and its seed give the same packets at
// the same picoseconds on every machine, so the seed alone replays a failure.
//
// Faults come from the plan, from a tap that a scenario sets, or by hand (kill, pause, clog). After
// the heal time nothing more goes wrong, except that dead nodes may stay dead, and every rank must
// get the exact sum within a bounded virtual time. Only a job that lost a worker or its server may
// end otherwise: then every survivor must get the error that names what was lost.
//
// Five source files: world.cc (clock and driving loop), world_wire.cc (packets and their faults),
// world_setup.cc (making and breaking nodes), world_watch.cc (the judges of each turn),
// world_report.cc (the judgement at the end).

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

  // Runs until done() holds (checked after every event) or until `limit`; returns whether it held.
  bool run(Duration limit, const std::function<bool()>& done);
  void run_for(Duration time);
  // Runs until every operation is completed at every worker, or has failed if it may; false if that
  // takes longer than the plan's bound.
  bool run_to_completion();
  // Whether the operations of this job may fail, because it has lost a worker or its server.
  bool may_fail(std::uint32_t job) const;
  // When all sums are complete, every aggregator must become free; when all have left, no node may
  // hold the job. Reports anything left over as a violation.
  void check_release();
  void check_departure();
  std::size_t aggregators_in_use() const;  // of all switches
  std::size_t jobs_held() const;           // by the server and all switches

  // Whether it holds for the application of every live worker.
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

  // Call it after changing an application by hand.
  void wake_application(Rank rank, std::uint32_t job = 0) {
    wake_at(worker_host(rank, job), now());
  }

  // Faults by hand.
  void set_tap(Tap tap) { tap_ = std::move(tap); }
  void kill(HostId host);
  void restart_switch(std::uint32_t index);
  void restart_server(std::uint64_t boot_id, std::uint32_t index = 0);
  // Restarts the rank's process, with all its sockets.
  void restart_worker(HostId host);
  void pause(HostId host, Duration length);
  void clog(HostId from, HostId to, Duration length);
  void cut(HostId from, HostId to, Duration length);
  // From now on the rank's packets have another source, and what goes to its old address is lost.
  void change_address(HostId worker);
  void at(Instant when, std::function<void()> action);
  // Puts bytes on the wire, as anybody could.
  void inject(const Endpoint& from, const Endpoint& to, std::span<const std::uint8_t> bytes,
              Duration delay = Duration{0});

  FaultCounters faults() const;
  // Sums over all nodes of a kind, and over all lives of switches and servers.
  Counters<SwitchCounter> switch_counters() const;
  Counters<ServerCounter> server_counters() const;
  Counters<WorkerCounter> worker_counters() const;
  const Oracle& oracle() const { return oracle_; }
  const Network& network() const { return network_; }
  std::uint64_t packets_sent() const { return packets_sent_; }
  // Starts a digest of every packet and its sending time.
  void start_digest() { digest_ = 0; }
  std::uint64_t digest() const { return digest_.value(); }
  // Whether a stream of a watched worker has begun below this sequence and passed it.
  bool passes(std::uint64_t sequence) const;
  // All violations of the oracle or the invariants so far.
  std::vector<std::string> violations() const;
  // Which ranks still wait, and for what, for the report of a run that did not finish.
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
    bool returns = false;  // dead, but it will be restarted
    Instant paused_until{};
    Instant wake = kNever;         // when the node or its application asked to be woken
    Picoseconds armed = kNeverPs;  // when the queue will check whether that is due
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
  // Called after every call of a node: sends its outbox, and drives a worker until it has no more
  // to do.
  void settle(HostId host);
  void settle_worker(HostId host, Member& member);

  // world_watch.cc: before and after a turn, which a packet, a timer (without a sender) or an ICMP
  // error (without bytes) causes
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
  void send_misdirected();
  void prove_hostile(const Endpoint& node, const Endpoint& to, std::span<const std::uint8_t> bytes);
  void send_hostile_join(const Packet& join);
  void send_phantom(const Packet& packet, HostId member);
  void send_roaming_join(const Packet& packet, HostId member);
  Packet dishonest_packet(const Packet& packet, HostId member);
  void dead(std::uint32_t flight, HostId host);
  std::span<const std::uint8_t> marked(std::span<const std::uint8_t> bytes);
  void trace(const char* what, const Endpoint& from, const Endpoint& to,
             std::span<const std::uint8_t> bytes);

  // world_report.cc
  bool settled(const Host& host) const;
  std::optional<std::string> objection(const Application& application) const;
  std::optional<std::string> objection_to_names(const Application& application) const;

  Plan plan_;
  Picoseconds now_ = 0;
  Random random_;
  Oracle oracle_;
  std::vector<Host> hosts_;
  EndpointMap host_ids_;
  Network network_;
  // By host of the kind, if the plan is `watched`.
  std::vector<ServerJudge> server_judges_;
  std::vector<SwitchJudge> switch_judges_;
  std::vector<WorkerJudge> worker_judges_;
  std::vector<Path> paths_;  // index from · hosts + to; empty while no path has faults
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
  bool news_ = true;      // an application has changed since the last check
  bool is_over_ = false;  // all operations have ended
  bool trace_ = false;
};

}  // namespace atp::sim
