#include <gtest/gtest.h>
#include <malloc.h>

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "atp/core/dataplane/switch_node.h"
#include "atp/core/server/server.h"
#include "atp/core/worker/worker.h"

// Ten thousand jobs, one after another, through one switch and one server under virtual time: nodes
// that run for weeks must serve the last job like the first, and hold no more memory than they
// need.

namespace atp {
namespace {

using namespace std::chrono_literals;

constexpr std::uint16_t kWorkers = 2;
constexpr std::uint16_t kValues = 4;
constexpr std::uint64_t kCount = 10 * kValues;
constexpr Endpoint kSwitch = Endpoint::ipv4(10, 0, 0, 1, 5501);
constexpr Endpoint kServer = Endpoint::ipv4(10, 0, 0, 2, 5500);

SwitchConfig switch_config(const SharingConfig& sharing) {
  SwitchConfig config;
  config.aggregators = 256;
  config.max_value_count = kValues;
  config.sharing = sharing;
  config.upstream = UpstreamPolicy({Prefix{kServer.address, 128}});
  return config;
}

ServerConfig server_config() {
  ServerConfig config;
  config.wmax = 16;
  config.float_slots = 1;
  return config;
}

// A worker with its one tensor, in place.
class Member : public Tensors {
 public:
  Member(std::uint32_t job, Rank rank) : worker_(config_of(job, rank)), values_(kCount, rank + 1) {}

  static Endpoint endpoint(Rank rank) {
    return Endpoint::ipv4(10, 0, 1, static_cast<std::uint8_t>(rank), 7000);
  }
  std::span<const std::byte> input(OperationId id) override { return output(id); }
  std::span<std::byte> output(OperationId) override {
    return std::as_writable_bytes(std::span(values_));
  }
  const BlockLayout& layout(OperationId) override { return layout_; }
  std::span<std::int16_t> exponents(OperationId) override { return exponents_; }

  Worker& worker() { return worker_; }
  void poll() {
    while (const auto event = worker_.poll_event()) {
      joined |= event->kind == EventKind::kJoined;
      done |= event->kind == EventKind::kCompleted;
      left |= event->kind == EventKind::kLeft;
      failed |= event->kind == EventKind::kFailed && event->failure.code != FailureCode::kLeft;
    }
  }
  bool sum_is_right() const { return values_ == std::vector<float>(kCount, 3); }

  bool joined = false;
  bool done = false;
  bool left = false;
  bool failed = false;

 private:
  static WorkerConfig config_of(std::uint32_t job, Rank rank) {
    WorkerConfig config;
    config.job = {job, 1};
    config.rank = rank;
    config.world_size = kWorkers;
    config.nonce = (std::uint64_t{job} << 8) + rank;
    config.max_value_count = kValues;
    config.max_operations = 4;
    config.route.push_back(kSwitch);
    config.route.push_back(kServer);
    config.seed = rank;
    return config;
  }

  Worker worker_;
  std::vector<float> values_;
  BlockLayout layout_;  // never used: the scale is fixed
  std::vector<std::int16_t> exponents_;
};

// What a job cost; equal for two jobs that were served alike.
struct Cost {
  std::uint64_t packets = 0;
  Duration time{};
  bool operator==(const Cost&) const = default;
};

// Every packet takes a microsecond, one after another.
class Site {
 public:
  explicit Site(const SharingConfig& sharing)
      : node(switch_config(sharing)), server(server_config()) {}

  // Serves a whole job, from its first JOIN to its last LEAVE.
  Cost serve(std::uint32_t job) {
    const Instant begin = now;
    const std::uint64_t packets_before = packets;
    arrive(job);
    submit(members_[0]);
    submit(members_[1]);
    EXPECT_TRUE(run([](Member& member) { return member.done; })) << "job " << job;
    for (auto& member : members_) {
      EXPECT_TRUE(member->sum_is_right()) << "job " << job;
      member->worker().leave(now);
    }
    EXPECT_TRUE(run([](Member& member) { return member.left; })) << "job " << job;
    forget();
    return {packets - packets_before, now - begin};
  }

  // Starts a job that dies silently in the middle of a sum.
  void lose(std::uint32_t job) {
    arrive(job);
    submit(members_[0]);
    settle();
    forget();
  }

  void wait(Duration time) {
    const Instant end = now + time;
    while (next_timeout() <= end) {
      now = std::max(now, next_timeout());
      settle();
    }
    now = end;
  }

  SwitchNode node;
  Server server;
  Instant now{1h};
  std::uint64_t packets = 0;

 private:
  struct Flight {
    Endpoint from;
    Endpoint to;
    std::vector<std::uint8_t> bytes;
  };

  void arrive(std::uint32_t job) {
    for (Rank rank = 0; rank < kWorkers; ++rank) {
      members_[rank] = std::make_unique<Member>(job, rank);
      members_[rank]->worker().start(now);
    }
    EXPECT_TRUE(run([](Member& member) { return member.joined; })) << "job " << job;
  }
  void submit(const std::unique_ptr<Member>& member) {
    EXPECT_TRUE(member->worker().submit(now, {.count = kCount}).has_value());
  }
  void forget() {
    for (auto& member : members_) member.reset();
    flights_.clear();
  }

  bool run(const std::function<bool(Member&)>& done) {
    const Instant limit = now + 10s;
    const auto all_done = [&] {
      return std::all_of(members_.begin(), members_.end(), [&](auto& m) { return done(*m); });
    };
    settle();
    while (!all_done() && next_timeout() <= limit) {
      now = std::max(now, next_timeout());
      settle();
    }
    return all_done() && !members_[0]->failed && !members_[1]->failed;
  }

  // Runs due timers, and packets until none is in flight.
  void settle() {
    do {
      if (!flights_.empty()) deliver();
      tick(node, kSwitch);
      tick(server, kServer);
      for (Rank rank = 0; rank < kWorkers; ++rank) drive(rank);
    } while (!flights_.empty());
  }
  template <class Node>
  void tick(Node& which, const Endpoint& own) {
    if (which.next_timeout() > now) return;
    which.handle_timeout(now, out_);
    collect(own);
  }
  void drive(Rank rank) {
    Member* member = members_[rank].get();
    if (member == nullptr) return;
    if (member->worker().next_timeout() <= now) {
      member->worker().handle_timeout(now, *member, out_);
    }
    member->worker().poll_transmit(now, *member, out_);
    member->poll();
    collect(Member::endpoint(rank));
  }
  void deliver() {
    const Flight flight = std::move(flights_.front());
    flights_.pop_front();
    now += 1us;
    ++packets;
    if (flight.to == kSwitch) {
      node.handle_packet(now, flight.from, flight.to, flight.bytes, out_);
    } else if (flight.to == kServer) {
      server.handle_packet(now, flight.from, flight.to, flight.bytes, out_);
    } else {
      for (Rank rank = 0; rank < kWorkers; ++rank) {
        if (members_[rank] == nullptr || flight.to != Member::endpoint(rank)) continue;
        members_[rank]->worker().handle_packet(now, flight.from, flight.bytes, *members_[rank],
                                               out_);
      }
    }
    collect(flight.to);
  }
  void collect(const Endpoint& from) {
    for (const OutPacket& packet : out_.packets()) {
      const auto bytes = out_.bytes_of(packet);
      flights_.push_back({from, packet.to, {bytes.begin(), bytes.end()}});
    }
    out_.clear();
  }
  Instant next_timeout() const {
    Instant next = std::min(node.next_timeout(), server.next_timeout());
    for (const auto& member : members_) {
      if (member != nullptr) next = std::min(next, member->worker().next_timeout());
    }
    return next;
  }

  std::array<std::unique_ptr<Member>, kWorkers> members_;
  std::deque<Flight> flights_;
  Outbox out_{256, 1 << 18};
};

struct Row {
  const char* name;
  Duration pause;          // between two jobs
  std::uint32_t dead = 0;  // one in this many dies; 0: none
  SharingConfig sharing;
};

TEST(ManyJobs, TheLastOfTenThousandIsServedLikeTheFirst) {
  constexpr std::uint32_t kJobs = 10'000;
  const Row rows[] = {
      {"a thousand jobs a second, all of which leave", 1ms},
      {"the same on a partition", 1ms, 0, {.partitions = 3}},
      {"fifty jobs a second, of which one in ten dies in the middle of a sum", 20ms, 10},
      {"the same within a quota", 20ms, 10, {.quota = 16}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    Site site(row.sharing);
    const Cost first = site.serve(1);
    std::size_t heap = 0;
    std::size_t most_trees = 0;
    std::size_t most_jobs = 0;
    for (std::uint32_t job = 2; job <= kJobs && !testing::Test::HasFailure(); ++job) {
      site.wait(row.pause);
      const bool dies = row.dead > 0 && job % row.dead == 0;
      dies ? site.lose(job) : static_cast<void>(site.serve(job));
      most_trees = std::max(most_trees, site.node.trees());
      most_jobs = std::max(most_jobs, site.server.job_count());
      if (job == kJobs / 5) heap = mallinfo2().uordblks;
    }
    EXPECT_LE(mallinfo2().uordblks, heap + (64 << 10)) << "bytes; nothing may pile up";
    EXPECT_LE(most_trees, switch_config({}).max_trees);
    EXPECT_LE(most_jobs, server_config().max_jobs);
    EXPECT_EQ(site.node.counters()[SwitchCounter::kDropRefused], 0u);
    EXPECT_EQ(site.server.counters()[ServerCounter::kDropRefused], 0u);

    site.wait(10s);
    EXPECT_EQ(site.node.trees(), 0u);
    EXPECT_EQ(site.server.job_count(), 0u);
    EXPECT_EQ(site.node.aggregators_in_use(), 0u);
    const Cost last = site.serve(1);
    EXPECT_EQ(last.packets, first.packets);
    EXPECT_EQ(last.time, first.time);
  }
}

}  // namespace
}  // namespace atp
