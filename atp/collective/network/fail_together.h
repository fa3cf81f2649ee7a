#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace atp {

// Makes the transports of one communicator fail together: when one has failed the job is over, and
// the others' operations might wait forever for ranks that have noticed it. Thread-safe.
class FailTogether {
 public:
  using Stop = std::function<void(const std::string& why)>;

  // `stop` is called once: when a transport fails, or at once if one has failed already. It must
  // not block.
  void add(Stop stop) {
    std::unique_lock lock(mutex_);
    if (!failure_) return stops_.push_back(std::move(stop));
    const std::string why = *failure_;
    lock.unlock();
    stop(why);
  }

  // Reports that a transport has failed. Only the first call counts.
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
