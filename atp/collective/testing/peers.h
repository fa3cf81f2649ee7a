#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "atp/collective/peer/peers.h"

// For tests: the ranks of a group as threads of this process, over loopback.

namespace atp::testing {

template <class T>
Bytes writable(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

template <class T>
ConstBytes readable(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

class TestingPeers {
 public:
  using Body = std::function<void(std::size_t rank, Peers& peers)>;

  explicit TestingPeers(std::size_t ranks, const std::string& host = "127.0.0.1") {
    options_.world_size = ranks;
    options_.token = 4711;
    options_.operation_timeout = std::chrono::seconds(20);
    for (std::size_t i = 0; i < ranks; ++i) {
      listeners_.push_back(
          std::make_shared<const TcpListener>(TcpListener::open(host + ":0").value()));
      addresses_.push_back(listeners_.back()->address());
    }
  }

  PeerOptions& options() { return options_; }
  const std::vector<Endpoint>& addresses() const { return addresses_; }

  std::unique_ptr<Peers> start(std::size_t rank) const { return start(rank, addresses_); }
  // A rank that knows the others by these addresses.
  std::unique_ptr<Peers> start(std::size_t rank, const std::vector<Endpoint>& addresses) const {
    PeerOptions options = options_;
    options.rank = rank;
    return std::move(Peers::start(listeners_[rank], options, addresses)).value();
  }
  // For a rank that does not exist and so does not listen.
  void close_listener(std::size_t rank) { listeners_[rank].reset(); }

  // Runs each rank in a thread of its own.
  void run(const Body& body) const { run_all_but(options_.world_size, body); }
  void run_all_but(std::size_t absent, const Body& body) const {
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < options_.world_size; ++rank) {
      if (rank == absent) continue;
      threads.emplace_back([&, rank] {
        const std::unique_ptr<Peers> peers = start(rank);
        body(rank, *peers);
        static_cast<void>(peers->shutdown());
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  PeerOptions options_;
  std::vector<std::shared_ptr<const TcpListener>> listeners_;
  std::vector<Endpoint> addresses_;
};

inline std::uint64_t count_of(const Peers& peers, std::string_view name) {
  for (const auto& [counter, value] : peers.counters()) {
    if (counter == name) return value;
  }
  ADD_FAILURE() << "no counter " << name;
  return 0;
}

inline std::string text_of(const Status& status) {
  return status.ok() ? "ok" : status.error().message;
}

}  // namespace atp::testing
