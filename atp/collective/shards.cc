#include "atp/collective/shards.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <numeric>
#include <utility>

namespace atp {

std::vector<Shards::Part> Shards::split(std::size_t values) {
  std::vector<std::size_t> order(values_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
    return std::pair{values_[a], a} < std::pair{values_[b], b};
  });
  const std::size_t count = std::clamp<std::size_t>(values / kLeastPart, 1, order.size());
  std::vector<Part> parts;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t length = values / count + (i < values % count ? 1 : 0);
    parts.push_back({order[i], offset, length});
    values_[order[i]] += length;
    offset += length;
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
