#include "explore/explore.h"

#include <algorithm>

namespace atp::explore {
namespace {

constexpr std::size_t kProgressEvery = 1 << 20;
constexpr std::size_t kMostMovesOfDrain = 60;

class Explorer {
 public:
  Explorer(const Plan& plan, const ExploreOptions& options, const Bug* bug)
      : options_(options), world_(plan, bug), states_(world_.cluster().host_count()) {}

  Exploration run() {
    add(world_.first(), 0, {});
    while (next_ < states_.size() && !result_.violation) {
      if (states_.size() >= options_.most_states) break;
      if (next_ == level_end_) {
        ++result_.depth;
        level_end_ = states_.size();
      }
      expand(next_++);
    }
    result_.complete = next_ == states_.size();
    if (!result_.violation) drain_all();
    result_.states = states_.size();
    const Cluster& cluster = world_.cluster();
    for (HostId host = 0; host < cluster.host_count(); ++host) {
      result_.node_states += cluster.nodes(host).size();
    }
    result_.turns = cluster.turns();
    result_.packets = cluster.packets().size();
    return std::move(result_);
  }

 private:
  struct Origin {
    StateTable::Id parent = 0;
    Move move;
  };

  void add(const State& state, StateTable::Id parent, const Move& move) {
    if (!states_.put(state).second) return;
    origins_.push_back({parent, move});
    if (state.packets.empty() && world_.done(state)) ++result_.ends;
    if (options_.progress && states_.size() % kProgressEvery == 0) {
      options_.progress(states_.size(), result_.depth);
    }
  }

  void expand(StateTable::Id id) {
    states_.get(id, here_);
    world_.moves(here_, moves_);
    for (const Move& move : moves_) {
      there_ = here_;
      std::string objection = world_.make(move, there_);
      ++result_.moves;
      if (objection.empty() && world_.objection(there_) != nullptr) {
        objection = world_.objection(there_);
      }
      if (!objection.empty()) {
        std::vector<Move> way = way_to(id);
        way.push_back(move);
        result_.violation = {objection, story_of(way)};
        return;
      }
      add(there_, id, move);
    }
  }

  void drain_all() {
    if (options_.drain_every == 0) return;
    for (const DrainOrder order : kDrainOrders) {
      Drainer drainer(world_, order);
      for (std::size_t id = 0; id < states_.size(); id += options_.drain_every) {
        states_.get(static_cast<StateTable::Id>(id), here_);
        const DrainResult drained = drainer.drain(here_);
        ++result_.drains;
        if (!drained.objection.empty()) {
          std::vector<Move> way = way_to(static_cast<StateTable::Id>(id));
          const std::vector<Move> rest = drainer.moves_of(here_, kMostMovesOfDrain);
          way.insert(way.end(), rest.begin(), rest.end());
          result_.violation = {drained.objection, story_of(way)};
          return;
        }
        result_.most_waits = std::max(result_.most_waits, drained.waits);
        result_.longest = std::max(result_.longest, drained.until_done);
        result_.longest_cleaning = std::max(result_.longest_cleaning, drained.until_clean);
      }
    }
  }

  std::vector<Move> way_to(StateTable::Id id) const {
    std::vector<Move> way;
    for (; id != 0; id = origins_[id].parent) way.push_back(origins_[id].move);
    std::reverse(way.begin(), way.end());
    return way;
  }

  std::vector<std::string> story_of(const std::vector<Move>& way) {
    std::vector<std::string> story;
    State state = world_.first();
    for (const Move& move : way) {
      story.push_back(world_.story(move, state));
      world_.make(move, state);
    }
    return story;
  }

  const ExploreOptions& options_;
  World world_;
  StateTable states_;
  std::vector<Origin> origins_;
  StateTable::Id next_ = 0;    // the next state to expand
  std::size_t level_end_ = 1;  // the end of the states at the same distance
  State here_;
  State there_;
  std::vector<Move> moves_;
  Exploration result_;
};

}  // namespace

Exploration explore(const Plan& plan, const ExploreOptions& options, const Bug* bug) {
  return Explorer(plan, options, bug).run();
}

std::string with_commas(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

}  // namespace atp::explore
