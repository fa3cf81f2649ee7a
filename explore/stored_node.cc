#include "explore/stored_node.h"

#include <unordered_map>
#include <utility>

#include "atp/base/check.h"
#include "explore/mix.h"
#include "explore/opened.h"

namespace atp::explore {
namespace {

// --- members that are written and never read

void forget_statistics(Member& member) { open<WorkerCounters>(member.worker) = {}; }

void forget_statistics(SwitchNode& node) {
  SwitchState& state = open<SwitchInside>(node);
  state.counters = {};
  for (Tree& tree : open<TreesOfTable>(state.trees)) {
    open<TreeLateness>(tree) = {};
    open<TreeWaiting>(tree) = {};
  }
}

void forget_statistics(Server& server) {
  open<ServerCounters>(server) = {};
  for (auto& [range, entry] : open<ServerJobs>(server)) {
    auto& sums = open<JobSums>(entry.job);
    if (!sums) continue;
    open<SumsProgress>(*sums) = {};
    open<SumsLateness>(*sums) = {};
  }
  for_each_stream(server, [](const JobKey&, std::uint16_t, auto& stream) {
    for_each_fragment(stream.ring, [](Fragment& fragment) { fragment.packets = 0; });
  });
}

// --- hashes of the members that differ most often; equality decides

std::uint64_t word(Instant when) {
  return static_cast<std::uint64_t>(when.time_since_epoch().count());
}

void mix_in(Mix& mix, const SentFragment& fragment) {
  mix.add(word(fragment.last_sent));
  mix.add(static_cast<std::uint64_t>(fragment.rung) << 3 | (fragment.answered ? 1U : 0U) |
          (fragment.float_mode ? 2U : 0U) | (fragment.went_straight ? 4U : 0U));
}

std::uint64_t hash_of(Member& member) {
  Mix mix;
  mix.add(word(member.worker.next_timeout()));
  mix.add(member.application.completed() << 1 | (member.worker.attached() ? 1U : 0U));
  for (Stream& stream : open<WorkerStreams>(member.worker)) {
    const SendWindow& window = stream.window;
    mix.add(window.base() << 32 | window.next());
    mix.add(word(stream.last_progress));
    mix.add(word(stream.recovery.due()));
    for (std::uint64_t s = window.base(); s < window.next(); ++s) mix_in(mix, window.at(s));
  }
  return mix.value();
}

std::uint64_t hash_of(SwitchNode& node) {
  Mix mix;
  const SwitchState& state = open<SwitchInside>(node);
  mix.add(word(node.next_timeout()));
  for (std::uint32_t slot = 0; slot < state.aggregators.size(); ++slot) {
    const atp_aggregator& a = state.aggregators[slot];
    mix.add({reinterpret_cast<const std::uint8_t*>(&a), offsetof(atp_aggregator, bitmap) + 8});
  }
  for (const Tree& tree : state.trees.trees()) {
    mix.add(tree.membership().attached().words()[0] << 32 | tree.known().words()[0]);
    mix.add(word(tree.membership().next_expiry()));
    mix.add(tree.sequence_limit(tree.streams().first));
  }
  return mix.value();
}

std::uint64_t hash_of(Server& server) {
  Mix mix;
  mix.add(word(server.next_timeout()));
  for (auto& [range, entry] : open<ServerJobs>(server)) {
    mix.add(entry.job.members().detached().words()[0]);
    mix.add(word(entry.job.members().next_expiry()));
  }
  for_each_stream(server, [&](const JobKey&, std::uint16_t, auto& stream) {
    mix.add(stream.ring.head() << 32 | stream.ring.completed_end());
    for_each_fragment(stream.ring, [&](const Fragment& fragment) {
      mix.add(fragment.sequence << 16 | static_cast<std::uint64_t>(fragment.mode) << 8 |
              fragment.flags);
      mix.add(fragment.bitmap.words()[0] << 32 | fragment.answered.ranks.words()[0]);
      mix.add(word(fragment.stall.act_at));
    });
  });
  return mix.value();
}

// --- facts

std::size_t attached_ranks(const SwitchState& state) {
  std::size_t ranks = 0;
  for (const Tree& tree : state.trees.trees()) ranks += tree.membership().attached().size();
  return ranks;
}

Facts facts_of(Member& member) {
  Mix mix;
  for (Stream& stream : open<WorkerStreams>(member.worker)) {
    for (std::uint64_t slot = 0; slot < stream.window.wmax(); ++slot) {
      mix.add(stream.indices.at(slot));
    }
  }
  return {.due = member.worker.next_timeout(),
          .finished = member.application.finished(),
          .clean = member.worker.attached(),
          .map = mix.value()};
}

Facts facts_of(SwitchNode& node) {
  return {.due = node.next_timeout(),
          .clean = node.aggregators_in_use() == 0,
          .ranks = attached_ranks(open<SwitchInside>(node))};
}

Facts facts_of(Server& server) {
  Facts facts{.due = server.next_timeout()};
  for (const auto& [range, entry] : open<ServerJobs>(server)) {
    facts.ranks += entry.job.members().tree().attached().size();
  }
  return facts;
}

// --- storing, without members that are large and always the same

using JobsOfServer = std::remove_cvref_t<decltype(open<ServerJobs>(std::declval<Server&>()))>;

struct StoredSwitch {
  SwitchConfig config;
  AggregatorTable aggregators;
  TreeTable trees;
  VirtualQueue uplink;
  bool congested;
  Sweep sweep;
  const AnswerPacer* pacer;
  bool operator==(const StoredSwitch&) const = default;
};

struct StoredServer {
  ServerConfig config;
  JobsOfServer jobs;
  std::size_t bytes;
  Instant timeout;
  Instant last_turn;
  bool congested;
  const AnswerPacer* pacer;
  bool operator==(const StoredServer&) const = default;
};

// A worker's queue of events is empty after each turn, so it is stored as one without memory.
EventQueue no_events() { return EventQueue(std::size_t{0} - EventQueue::kSpare); }

EventQueue events_for(Worker& worker) {
  return EventQueue(open<WorkerConfigured>(worker).max_operations);
}

}  // namespace

struct NodeStore::Stored {
  std::variant<Member, StoredSwitch, StoredServer> value;
};

struct NodeStore::Inside {
  // Compare with the last one first: it rarely changes.
  const AnswerPacer* keep(const AnswerPacer& pacer) {
    for (auto at = pacers.rbegin(); at != pacers.rend(); ++at) {
      if (**at == pacer) return at->get();
    }
    return pacers.emplace_back(std::make_unique<AnswerPacer>(pacer)).get();
  }

  Stored store(Member&& member) {
    ATP_CHECK(!member.worker.poll_event());
    open<WorkerEvents>(member.worker) = no_events();
    return {std::move(member)};
  }
  Stored store(SwitchNode&& node) {
    SwitchState& state = open<SwitchInside>(node);
    return {StoredSwitch{state.config, std::move(state.aggregators), std::move(state.trees),
                         state.uplink, state.congested, open<SwitchSweep>(node),
                         keep(state.pacer)}};
  }
  Stored store(Server&& server) {
    return {StoredServer{open<ServerConfigured>(server), std::move(open<ServerJobs>(server)),
                         open<ServerBytes>(server), open<ServerTimeout>(server),
                         open<ServerLastTurn>(server), open<ServerCongested>(server),
                         keep(open<ServerPacer>(server))}};
  }

  static Node restore(const Member& member) {
    Member copy = member;
    open<WorkerEvents>(copy.worker) = events_for(copy.worker);
    return copy;
  }
  static Node restore(const StoredSwitch& stored) {
    SwitchNode node(stored.config);
    SwitchState& state = open<SwitchInside>(node);
    state.aggregators = stored.aggregators;
    state.trees = stored.trees;
    state.uplink = stored.uplink;
    state.congested = stored.congested;
    state.pacer = *stored.pacer;
    open<SwitchSweep>(node) = stored.sweep;
    return node;
  }
  static Node restore(const StoredServer& stored) {
    Server server(stored.config);
    open<ServerJobs>(server) = stored.jobs;
    open<ServerBytes>(server) = stored.bytes;
    open<ServerTimeout>(server) = stored.timeout;
    open<ServerLastTurn>(server) = stored.last_turn;
    open<ServerCongested>(server) = stored.congested;
    open<ServerPacer>(server) = *stored.pacer;
    return server;
  }

  std::vector<std::unique_ptr<AnswerPacer>> pacers;
  std::vector<Stored> stored;
  std::unordered_multimap<std::uint64_t, Id> by_hash;
};

NodeStore::NodeStore() : inside_(std::make_unique<Inside>()) {}
NodeStore::~NodeStore() = default;
NodeStore::NodeStore(NodeStore&&) noexcept = default;

NodeStore::Id NodeStore::put(Node node) {
  std::visit([](auto& any) { forget_statistics(any); }, node);
  const std::uint64_t hash = std::visit([](auto& any) { return hash_of(any); }, node);
  const Facts facts = std::visit([](auto& any) { return facts_of(any); }, node);
  Node whole = node;
  Stored stored = std::visit([&](auto& any) { return inside_->store(std::move(any)); }, node);
  const auto [begin, end] = inside_->by_hash.equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    if (inside_->stored[at->second].value == stored.value) return at->second;
  }
  const auto id = static_cast<Id>(inside_->stored.size());
  inside_->stored.push_back(std::move(stored));
  inside_->by_hash.emplace(hash, id);
  facts_.push_back(facts);
  // Fails to compile when a node gets another member, which must be stored as well.
  if (auto* member = std::get_if<Member>(&whole)) {
    open<WorkerEvents>(member->worker) = events_for(member->worker);
  }
  ATP_CHECK(get(id) == whole);
  return id;
}

Node NodeStore::get(Id id) const {
  return std::visit([](const auto& any) { return Inside::restore(any); },
                    inside_->stored[id].value);
}

SwitchState& inside(SwitchNode& node) { return open<SwitchInside>(node); }

Fragment* find_fragment(Server& server, const JobKey& job, std::uint16_t stream,
                        std::uint64_t sequence) {
  Fragment* found = nullptr;
  for_each_stream(server, [&](const JobKey& key, std::uint16_t id, auto& one) {
    if (key != job || id != stream || one.ring.find(sequence) == nullptr) return;
    found = &one.ring.at(sequence);
  });
  return found;
}

std::vector<FinalFragment> complete_fragments(Server& server) {
  std::vector<FinalFragment> complete;
  for_each_stream(server, [&](const JobKey& job, std::uint16_t id, auto& stream) {
    for_each_fragment(stream.ring, [&](const Fragment& fragment) {
      if (!fragment.complete()) return;
      complete.push_back({job, id, fragment.sequence, fragment.next_index});
    });
  });
  return complete;
}

}  // namespace atp::explore
