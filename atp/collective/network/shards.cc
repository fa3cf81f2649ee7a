// Where a tensor is cut, and which server gets which part.
#include "atp/collective/network/shards.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

namespace atp {

namespace {

// The end of each of this many parts; nothing if one would be too small.
std::optional<std::vector<std::size_t>> ends_of(const BlockLayout& layout, std::size_t parts) {
  std::vector<std::size_t> ends;
  std::size_t begin = 0;
  for (std::size_t i = 1; i <= parts; ++i) {
    const std::size_t share = layout.values() / parts * i + layout.values() % parts * i / parts;
    const std::size_t end = i < parts ? layout.block_at(share).begin : layout.values();
    if (parts > 1 && (end < begin || end - begin < Shards::kLeastPart)) return std::nullopt;
    ends.push_back(end);
    begin = end;
  }
  return ends;
}

std::vector<std::size_t> best_ends(const BlockLayout& layout, std::size_t most_parts) {
  std::size_t parts = std::clamp<std::size_t>(layout.values() / Shards::kLeastPart, 1, most_parts);
  while (true) {
    if (const auto ends = ends_of(layout, parts)) return *ends;
    --parts;
  }
}

}  // namespace

std::vector<Shards::Part> Shards::split(const BlockLayout& layout) {
  std::vector<std::size_t> order(values_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
    return std::pair{values_[a], a} < std::pair{values_[b], b};
  });
  std::vector<Part> parts;
  std::size_t begin = 0;
  for (const std::size_t end : best_ends(layout, order.size())) {
    const std::size_t shard = order[parts.size()];
    parts.push_back({shard, begin, end});
    values_[shard] += end - begin;
    begin = end;
  }
  return parts;
}

std::vector<std::vector<Endpoint>> all_routes(const CommunicatorOptions& options) {
  std::vector<std::vector<Endpoint>> routes{options.route};
  routes.insert(routes.end(), options.more_routes.begin(), options.more_routes.end());
  return routes;
}

std::function<void(const Status&)> after(std::size_t times,
                                         std::function<void(const Status&)> done) {
  if (!done) return nullptr;
  struct State {
    std::mutex mutex;
    std::size_t left;
    Status result = ok_status();
    std::function<void(const Status&)> done;
  };
  const auto state = std::make_shared<State>();
  state->left = times;
  state->done = std::move(done);
  return [state](const Status& status) {
    std::unique_lock lock(state->mutex);
    if (state->result.ok()) state->result = status;
    if (--state->left > 0) return;
    lock.unlock();
    state->done(state->result);
  };
}

}  // namespace atp
