#include "explore/cluster.h"

#include <algorithm>
#include <limits>

#include "atp/base/check.h"
#include "explore/properties.h"

namespace atp::explore {
namespace {

// A turn's input as a number: one of these, or kFirstPacket plus the packet's number.
constexpr std::uint64_t kStart = 0;
constexpr std::uint64_t kTime = 1;
constexpr std::uint64_t kUnreachable = 2;
constexpr std::uint64_t kFirstPacket = 3;

// The widths of the parts of a turn's key.
constexpr int kInputBits = 17;
constexpr int kNodeBits = 24;
constexpr int kTimeBits = 20;

Endpoint switch_endpoint(std::uint32_t index) {
  return Endpoint::ipv4(10, 1, 0, static_cast<std::uint8_t>(index), ATP_DEFAULT_SWITCH_PORT);
}
Endpoint server_endpoint() { return Endpoint::ipv4(10, 2, 0, 0, ATP_DEFAULT_SERVER_PORT); }
Endpoint worker_endpoint(std::size_t job, Rank rank) {
  return Endpoint::ipv4(10, 3, static_cast<std::uint8_t>(job), static_cast<std::uint8_t>(rank),
                        7000);
}

WorkerConfig worker_config(const Plan& plan, std::size_t index, Rank rank) {
  const JobPlan& job = plan.jobs[index];
  WorkerConfig config;
  config.job = job.key;
  config.rank = rank;
  config.world_size = job.world_size();
  config.nonce = 1 + index * 16 + rank;
  config.stream_count = job.stream_count();
  config.max_value_count = plan.values_per_fragment;
  config.number_format = job.format;
  config.max_operations = static_cast<std::uint32_t>(job.operations.size());
  config.seed = config.nonce;
  for (const std::uint32_t at : job.ways[rank]) config.route.push_back(switch_endpoint(at));
  config.route.push_back(server_endpoint());
  return config;
}

SwitchConfig switch_config(const Plan& plan) {
  SwitchConfig config;
  config.aggregators = plan.aggregators;
  config.max_value_count = plan.values_per_fragment;
  config.places = plan.places;
  config.sharing.quota = plan.quota;
  config.upstream = UpstreamPolicy({Prefix{Endpoint::ipv4(10, 0, 0, 0, 0).address, 96 + 8}});
  return config;
}

ServerConfig server_config(const Plan& plan) {
  ServerConfig config;
  config.wmax = plan.wmax;
  config.max_value_count = plan.values_per_fragment;
  config.float_slots = 1;
  return config;
}

std::size_t ranks_behind(const Plan& plan, std::uint32_t index) {
  std::size_t ranks = 0;
  for (const JobPlan& job : plan.jobs) {
    for (const auto& way : job.ways) {
      ranks += static_cast<std::size_t>(std::count(way.begin(), way.end(), index));
    }
  }
  return ranks;
}

}  // namespace

Cluster::Cluster(const Plan& plan, const Bug* bug) : bug_(bug), outbox_(256, std::size_t{1} << 18) {
  add_workers(plan);
  for (std::uint32_t i = 0; i < plan.switches; ++i) {
    const std::string name = plan.switches == 1 ? "switch" : "switch " + std::to_string(i);
    add_host(name, switch_endpoint(i), SwitchNode(switch_config(plan)));
    SwitchConfig next_life = switch_config(plan);
    ++next_life.secret[0];
    hosts_.back().restarted = hosts_.back().nodes.put(SwitchNode(next_life));
    hosts_.back().ranks = ranks_behind(plan, i);
  }
  add_host("server", server_endpoint(), Server(server_config(plan)));
  hosts_.back().ranks = worker_count_;
}

void Cluster::add_host(const std::string& name, const Endpoint& endpoint, Node node) {
  ATP_CHECK(hosts_.size() < kMaxHosts);
  host_ids_[endpoint] = static_cast<HostId>(hosts_.size());
  Host& host = hosts_.emplace_back();
  host.name = name;
  host.endpoint = endpoint;
  host.fresh = host.nodes.put(std::move(node));
}

void Cluster::add_workers(const Plan& plan) {
  for (std::size_t j = 0; j < plan.jobs.size(); ++j) {
    const JobData& data = jobs_.emplace_back(plan.jobs[j]);
    for (Rank rank = 0; rank < plan.jobs[j].world_size(); ++rank) {
      const std::string job = plan.jobs.size() == 1 ? "" : " of job " + std::to_string(j + 1);
      const WorkerConfig config = worker_config(plan, j, rank);
      add_host("worker " + std::to_string(rank) + job, worker_endpoint(j, rank),
               Member{Worker(config), Application(data, rank)});
      hosts_.back().job = static_cast<std::uint32_t>(j);
      hosts_.back().parent = config.route.front();
    }
  }
  worker_count_ = host_count();
}

Cluster::TimeId Cluster::time_id(Instant when) {
  const auto [at, is_new] = time_ids_.try_emplace(when, static_cast<TimeId>(times_.size()));
  if (is_new) times_.push_back(when);
  return at->second;
}

const Outcome& Cluster::deliver(PacketPool::Id packet, NodeStore::Id node, TimeId now) {
  return turn(packets_[packet].to, node, now, kFirstPacket + packet);
}

const Outcome& Cluster::wake(HostId host, NodeStore::Id node, TimeId now) {
  return turn(host, node, now, kTime);
}

const Outcome& Cluster::tell_unreachable(HostId worker, NodeStore::Id node, TimeId now) {
  return turn(worker, node, now, kUnreachable);
}

const Outcome& Cluster::start(HostId worker, TimeId now) {
  return turn(worker, fresh(worker), now, kStart);
}

const Outcome& Cluster::turn(HostId host, NodeStore::Id node, TimeId now, std::uint64_t input) {
  ATP_CHECK(node < 1U << kNodeBits && now < 1U << kTimeBits && input < 1U << kInputBits);
  const std::uint64_t key =
      1 + ((((std::uint64_t{now} << kNodeBits | node) << kInputBits) | input) << 3 | host);
  if (const std::uint32_t* known = turns_.find(key)) return outcomes_[*known];
  outcomes_.push_back(play(host, node, now, input));
  turns_.insert(key, static_cast<std::uint32_t>(outcomes_.size() - 1));
  return outcomes_.back();
}

Outcome Cluster::play(HostId id, NodeStore::Id node_id, TimeId now, std::uint64_t input) {
  const Host& host = hosts_[id];
  Node node = host.nodes.get(node_id);
  outbox_.clear();
  if (input < kFirstPacket) {
    const Witness witness(node);
    if (input == kStart) explore::start(node, time(now));
    const Cause cause = input == kUnreachable ? Cause::kUnreachable : Cause::kTime;
    run(node, time(now), {cause, host.parent, {}}, outbox_);
    std::vector<Packet> sent = packets_in(outbox_, id);
    return keep(id, std::move(node), sent, witness.objection(node, sent));
  }
  const Packet packet = packets_[static_cast<PacketPool::Id>(input - kFirstPacket)];
  const ParsedPacket parsed = parse_packet(packet.bytes);
  ATP_CHECK(parsed.ok());
  const Endpoint& from = hosts_[packet.from].endpoint;
  const Witness witness(node, from, parsed.view());
  if (bug_ != nullptr && bug_->before != nullptr) bug_->before(node, parsed.view());
  run(node, time(now), {Cause::kPacket, from, packet.bytes, host.endpoint}, outbox_);
  std::vector<Packet> sent = packets_in(outbox_, id);
  if (bug_ != nullptr && bug_->after != nullptr) bug_->after(node, parsed.view(), sent);
  return keep(id, std::move(node), sent, witness.objection(node, sent));
}

std::vector<Packet> Cluster::packets_in(const Outbox& out, HostId from) const {
  ATP_CHECK(out.lost() == 0);
  std::vector<Packet> sent;
  for (const OutPacket& packet : out.packets()) {
    const auto to = host_ids_.find(packet.to);
    ATP_CHECK(to != host_ids_.end());
    const auto bytes = out.bytes_of(packet);
    sent.push_back({.from = from, .to = to->second, .bytes = {bytes.begin(), bytes.end()}});
  }
  return sent;
}

Outcome Cluster::keep(HostId host, Node node, const std::vector<Packet>& sent,
                      std::string objection) {
  if (const auto* member = std::get_if<Member>(&node)) {
    if (objection.empty()) objection = member->application.objection();
  }
  Outcome outcome{.first_sent = static_cast<std::uint32_t>(sent_.size()),
                  .sent = static_cast<std::uint16_t>(sent.size())};
  for (const Packet& packet : sent) {
    const PacketPool::Id id = packets_.put(packet, [&](const Packet& p) { return judge(p); });
    sent_.push_back(id);
    if (objection.empty()) objection = packets_[id].objection;
  }
  outcome.node = hosts_[host].nodes.put(std::move(node));
  if (objection.empty()) return outcome;
  const auto at = std::find(objections_.begin(), objections_.end(), objection);
  outcome.objection = static_cast<std::uint16_t>(at - objections_.begin());
  if (at == objections_.end()) objections_.push_back(std::move(objection));
  return outcome;
}

std::string Cluster::judge(const Packet& packet) {
  const ParsedPacket parsed = parse_packet(packet.bytes);
  if (!parsed.ok()) return "a node sent an unreadable packet";
  for (const JobData& job : jobs_) {
    if (job.plan().key != parsed.view().job()) continue;
    return contributions_.judge(parsed.view(), is_worker(packet.from), job.plan().world_size());
  }
  return "a packet of an unknown job";
}

}  // namespace atp::explore
