#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace atp {

// The lanes of one communicator fail together: where one has failed the job is over, and what the
// others have in flight may wait for ever for ranks that have noticed it. Thread-safe.
class Siblings {
 public:
  using Stop = std::function<void(const std::string& why)>;

  // `stop` is called once: when one has failed, or at once if one has already. It must not block.
  void add(Stop stop) {
    std::unique_lock lock(mutex_);
    if (!failure_) return stops_.push_back(std::move(stop));
    const std::string why = *failure_;
    lock.unlock();
    stop(why);
  }

  // One of them has failed. Only the first time counts.
  void fail(const std::string& why) {
    std::vector<Stop> stops;
    {
      const std::lock_guard lock(mutex_);
      if (failure_) return;
      failure_ = why;
      stops.swap(stops_);
    }
    for (const Stop& stop : stops) stop(why);
  }

 private:
  std::mutex mutex_;
  std::vector<Stop> stops_;
  std::optional<std::string> failure_;
};

}  // namespace atp
