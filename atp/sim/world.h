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
#include "atp/sim/event_queue.h"
#include "atp/sim/faults.h"
#include "atp/sim/oracle.h"
#include "atp/sim/path.h"
#include "atp/sim/plan.h"

// The virtual network: a clock that only moves from one event to the next, a link between every
// two nodes, and the very Worker, SwitchNode and Server of the product, each run by the loop of
// atp/core/README.md. One thread, one source of random numbers: a plan and its seed give the same
// packets at the same nanoseconds everywhere, so a failure is replayed by its seed alone.
//
// Faults come from the plan, from a tap that a scenario sets, or by hand (kill, pause, clog). After
// the heal time nothing more goes wrong, except that a switch may stay dead, and completion is
// demanded within a bounded virtual time.

namespace atp::sim {

struct Packet {
  Endpoint from;
  Endpoint to;
  std::vector<std::uint8_t> bytes;
};

// What a tap may do to a packet that is about to be sent.
struct Verdict {
  bool drop = false;
  Duration delay{};
  std::uint32_t extra_copies = 0;
};

class World {
 public:
  using HostId = std::uint32_t;
  using Tap = std::function<Verdict(const Packet&)>;

  explicit World(Plan plan);

  Instant now() const { return now_; }
  const Plan& plan() const { return plan_; }

  // Runs until done() holds (asked after every event), or until `limit`; says whether it held.
  bool run(Duration limit, const std::function<bool()>& done);
  void run_for(Duration time);
  // Everything is completed at every worker; within the plan's bound.
  bool run_to_completion();
  // All sums are in: every aggregator must come free; all leave: nobody may hold the job. Reports
  // what is left over as a violation.
  void check_release();
  void check_departure();
  std::size_t aggregators_in_use() const;  // of all switches
  std::size_t jobs_held() const;           // by the server and all switches

  // Does it hold for the application of every worker that is alive?
  bool all(bool (Application::*property)() const) const;

  // Hosts: server, switches, then the workers of job 0 by rank, of job 1, …
  HostId server_host() const { return 0; }
  HostId switch_host(std::uint32_t index) const { return 1 + index; }
  HostId worker_host(Rank rank, std::uint32_t job = 0) const;
  const Endpoint& endpoint(HostId host) const { return hosts_[host].endpoint; }
  std::size_t host_count() const { return hosts_.size(); }

  Server& server() { return std::get<Server>(hosts_[0].node); }
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
    hosts_[worker_host(rank, job)].wake = now_;
  }

  // Faults by hand.
  void set_tap(Tap tap) { tap_ = std::move(tap); }
  void kill(HostId host);
  void restart_switch(std::uint32_t index);
  void restart_server(std::uint64_t boot_id);
  void pause(HostId host, Duration length);
  void clog(HostId from, HostId to, Duration length);
  void at(Instant when, std::function<void()> action);
  // Puts bytes on the wire, as anybody could.
  void inject(const Endpoint& from, const Endpoint& to, std::span<const std::uint8_t> bytes,
              Duration delay = Duration{0});

  const FaultCounters& faults() const { return faults_; }
  // Of all switches and all their lives, and of all workers.
  Counters<SwitchCounter> switch_counters() const;
  Counters<WorkerCounter> worker_counters() const;
  const Oracle& oracle() const { return oracle_; }
  std::uint64_t packets_sent() const { return packets_sent_; }
  // A digest of every packet and the time of its sending.
  std::uint64_t trace_digest() const { return trace_digest_; }
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
    Instant paused_until{};
    Instant wake = kNever;  // what the node and its application asked for
  };
  struct Event {
    enum class Kind : std::uint8_t { kDeliver, kUnreachable, kAction } kind = Kind::kDeliver;
    std::uint32_t index = 0;  // of a packet in flight, or of an action
    HostId host = 0;          // kUnreachable: who is told
  };

  void add_worker(std::uint32_t job, Rank rank);
  void schedule(const Outage& outage);
  void make_paths();
  void heal();

  std::optional<HostId> host_at(const Endpoint& endpoint) const;
  HostId earliest_host() const;
  Instant wake_of(const Host& host) const { return std::max(host.wake, host.paused_until); }

  void step();
  void handle(const Event& event);
  void deliver(const Event& event);
  void dead(const Packet& packet, HostId host);
  void wake(HostId host);
  // After every call of a node: sends its outbox, and drives a worker until it has no more to do.
  void settle(HostId host);
  void settle_worker(HostId host, Member& member);
  void send_outbox(HostId host);
  void send(HostId host, const Endpoint& to, std::span<const std::uint8_t> bytes);
  void put_in_flight(const Endpoint& from, const Endpoint& to, std::span<const std::uint8_t> bytes,
                     Instant arrival);
  void trace(const char* what, const Endpoint& from, const Endpoint& to,
             std::span<const std::uint8_t> bytes);

  Plan plan_;
  Instant now_{};
  Random random_;
  Oracle oracle_;
  std::vector<Host> hosts_;
  std::vector<Path> paths_;  // from · hosts + to
  EventQueue<Event> queue_;
  std::vector<Packet> packets_;  // in flight; free entries are reused
  std::vector<std::uint32_t> free_packets_;
  std::vector<std::function<void()>> actions_;
  Tap tap_;
  Outbox outbox_;
  FaultCounters faults_;
  Counters<SwitchCounter> past_lives_;
  std::vector<std::string> violations_;
  std::uint64_t packets_sent_ = 0;
  std::uint64_t trace_digest_ = 0;
  std::uint64_t wakes_at_this_instant_ = 0;
  bool trace_ = false;
};

}  // namespace atp::sim
