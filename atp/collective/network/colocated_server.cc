// Shares one server per address in the process, and runs its thread.
#include "atp/collective/network/colocated_server.h"

#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

#include "atp/base/interrupt.h"
#include "atp/base/system_random.h"
#include "atp/base/text.h"
#include "atp/collective/base/quiet_thread.h"
#include "atp/collective/waits/wait_notice.h"
#include "atp/driver/udp/event_loop.h"
#include "atp/driver/udp/path_mtu.h"

namespace atp {
namespace {

// How often the jobs are checked while a caller waits for one to end; and how long the server stays
// after that, because a LEAVE is repeated if its acknowledgement was lost.
constexpr std::chrono::milliseconds kLookEvery{20};
constexpr std::chrono::milliseconds kLinger{100};

// The servers of this process, by address.
struct Registry {
  std::mutex mutex;
  std::map<Endpoint, std::weak_ptr<ColocatedServer>> servers;
};
Registry& registry() {
  static Registry registry;
  return registry;
}

Result<std::uint16_t> value_count(const Endpoint& listen, std::size_t asked, bool has_key) {
  if (asked != 0) return static_cast<std::uint16_t>(asked);
  const Result<std::size_t> mtu = interface_mtu(listen);
  if (!mtu) return mtu.error();
  return values_for_mtu(mtu.value(), 1, has_key ? ATP_TAG_BYTES : 0);
}

Result<std::shared_ptr<ColocatedServer>> start_at(const Endpoint& listen,
                                                  std::size_t values_per_fragment,
                                                  const std::optional<Tenant>& key) {
  const Result<std::uint16_t> values = value_count(listen, values_per_fragment, key.has_value());
  if (!values) return values.error();
  Result<UdpSocket> socket = UdpSocket::listen(listen);
  if (!socket) return socket.error();
  Result<std::unique_ptr<Waker>> waker = Waker::create();
  if (!waker) return waker.error();
  ServerConfig config;
  config.boot_id = random_seed();
  config.secret = {random_seed(), random_seed()};
  config.seed = random_seed();
  config.max_value_count = values.value();
  auto server = std::make_shared<ColocatedServer>(std::move(socket).value(),
                                                  std::move(waker).value(), config, key);
  const Status started = server->start();
  if (!started) return started.error();
  return server;
}

}  // namespace

Result<std::shared_ptr<ColocatedServer>> ColocatedServer::at(const Endpoint& listen,
                                                             std::size_t values_per_fragment,
                                                             const std::optional<Tenant>& key) {
  const std::lock_guard lock(registry().mutex);
  std::weak_ptr<ColocatedServer>& known = registry().servers[listen];
  // After fork() the child still has its parent's entry, but not its thread.
  if (auto server = known.lock(); server && server->owner_ == getpid()) {
    if (server->key_ == key) return server;
    return Error{"the server in this process at " + to_string(listen) +
                 " serves a job with another key: use another address"};
  }
  Result<std::shared_ptr<ColocatedServer>> started = start_at(listen, values_per_fragment, key);
  if (!started) {
    return Error{"cannot serve a part of the job in this process: " + started.error().message};
  }
  known = started.value();
  return started;
}

ColocatedServer::ColocatedServer(UdpSocket socket, std::unique_ptr<Waker> waker,
                                 const ServerConfig& config, const std::optional<Tenant>& key)
    : owner_(getpid()),
      socket_(std::move(socket)),
      closed_in_child_({socket_.fd()}),
      waker_(std::move(waker)),
      key_(key),
      server_(config) {}

Status ColocatedServer::start() {
  Result<std::thread> thread = quiet_thread("atp-server", [this] { run(); });
  if (!thread) return thread.error();
  thread_ = std::move(thread).value();
  return ok_status();
}

ColocatedServer::~ColocatedServer() {
  if (!thread_.joinable()) return;
  waker_->stop();
  thread_.join();
}

void ColocatedServer::run() {
  Driven<Server> node(server_, [this](Instant now) { return on_round(now); });
  std::optional<Keyring> keys;
  if (key_) keys.emplace(Keyring::Side::kNode, std::vector<Tenant>{*key_});
  EventLoop<Driven<Server>> loop(socket_, node, *waker_, keys ? &*keys : nullptr);
  for (;;) {
    try {
      return loop.run();
    } catch (const std::bad_alloc&) {
      continue;  // it costs a packet, as a loss would, but not the job
    }
  }
}

Instant ColocatedServer::on_round(Instant now) {
  const std::lock_guard lock(mutex_);
  board_.counters = server_.counters();
  if (board_.waiting == 0) return kNever;
  board_.jobs.clear();
  server_.for_each_job(now, [this](const JobSummary& job) {
    const JobKey& key = job.terms.key;
    // As ranks know it: the server has one tenant.
    board_.jobs[{key.job, key.incarnation}] = job.joined - job.left - job.lost;
  });
  ++board_.looked;
  changed_.notify_all();
  return now + kLookEvery;
}

bool ColocatedServer::wait_until_left(const JobKey& job,
                                      std::chrono::steady_clock::time_point until,
                                      const std::function<void(const std::string&)>& say) {
  WaitNotice notice(say);
  std::unique_lock lock(mutex_);
  ++board_.waiting;
  const std::uint64_t before = board_.looked;
  bool was_there = false;
  waker_->wake();
  const auto has_ended = [&] {
    if (board_.looked == before) return false;
    const bool there = board_.jobs.contains(job);
    was_there |= there;
    return !there;
  };
  bool left = wait_or_interrupted(changed_, lock, std::min(until, notice.at()), has_ended);
  if (!left) {
    const auto found = board_.jobs.find(job);
    const RankSet ranks = found == board_.jobs.end() ? RankSet() : found->second;
    lock.unlock();
    notice.look([&] {
      return "waiting for " + seconds_text(LateRanks::kToTell) + ": " + ranks_text(ranks) +
             (ranks.size() == 1 ? " has" : " have") +
             " not left the job, and may need the server in this process";
    });
    lock.lock();
    left = wait_or_interrupted(changed_, lock, until, has_ended);
  }
  --board_.waiting;
  lock.unlock();
  if (left && was_there) std::this_thread::sleep_for(kLinger);
  return left;
}

CounterList ColocatedServer::counters() {
  CounterList list;
  const std::lock_guard lock(mutex_);
  board_.counters.for_each([&](std::string_view name, std::uint64_t value) {
    list.emplace_back("server_" + std::string(name), value);
  });
  return list;
}

}  // namespace atp
