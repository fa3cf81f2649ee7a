#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "atp/collective/ring/links.h"
#include "atp/collective/ring/ring.h"

// For tests: the ranks of a ring as threads of this process, over loopback.

namespace atp::testing {

// Small whole numbers and fractions, different on each rank.
template <class T>
std::vector<T> values_of(std::size_t rank, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<T>((i * 7 + rank * 13) % 101) / 7 - static_cast<T>(rank);
  }
  return values;
}

template <class T>
Bytes bytes_of_vector(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

class TestingRing {
 public:
  using Body = std::function<void(std::size_t rank, Ring& ring)>;

  explicit TestingRing(std::size_t ranks) {
    options_.world_size = ranks;
    options_.token = 4711;
    options_.connect_timeout = std::chrono::seconds(10);
    options_.operation_timeout = std::chrono::seconds(20);
    for (std::size_t i = 0; i < ranks; ++i) {
      listeners_.push_back(std::make_shared<TcpListener>(TcpListener::open("127.0.0.1:0").value()));
      addresses_.push_back(listeners_.back()->address());
    }
  }

  // Another group with the same addresses.
  TestingRing with_token(std::uint64_t token) const {
    TestingRing other = *this;
    other.options_.token = token;
    return other;
  }

  RingOptions& options() { return options_; }
  std::vector<Endpoint>& addresses() { return addresses_; }
  const std::vector<Endpoint>& addresses() const { return addresses_; }

  // Only the connections of a rank.
  Links links(std::size_t rank) const {
    RingOptions options = options_;
    options.rank = rank;
    return std::move(connect_links(*listeners_[rank], options, addresses_)).value();
  }

  Result<std::unique_ptr<Ring>> connect(std::size_t rank) const {
    RingOptions options = options_;
    options.rank = rank;
    return Ring::connect(*listeners_[rank], options, addresses_);
  }

  // Runs each rank in a thread of its own; if the ring cannot be made, the test fails.
  void run(const Body& body) const { run_all_but(options_.world_size, body); }
  void run_all_but(std::size_t absent, const Body& body) const {
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < options_.world_size; ++rank) {
      if (rank == absent) continue;
      threads.emplace_back([&, rank] {
        Result<std::unique_ptr<Ring>> ring = connect(rank);
        ASSERT_TRUE(ring.ok()) << ring.error().message;
        body(rank, *ring.value());
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  RingOptions options_;
  std::vector<std::shared_ptr<TcpListener>> listeners_;
  std::vector<Endpoint> addresses_;
};

inline std::uint64_t count_of(const Ring& ring, std::string_view name) {
  for (const auto& [counter, value] : ring.counters()) {
    if (counter == name) return value;
  }
  ADD_FAILURE() << "no counter " << name;
  return 0;
}

}  // namespace atp::testing
