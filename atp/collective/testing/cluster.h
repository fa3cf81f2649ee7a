#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "atp/collective/communicator.h"
#include "atp/collective/network/worker_session.h"
#include "atp/collective/testing/tensors.h"
#include "atp/core/dataplane/switch_node.h"
#include "atp/core/server/server.h"
#include "atp/driver/udp/address.h"
#include "atp/driver/udp/event_loop.h"

// For tests: a real server and a real switch on loopback ports of their own, each in a thread of
// this process, and options for ranks that join through them.

namespace atp::testing {

// A node and its event loop. When destroyed, it is gone at once, like a killed process.
template <class Node>
class RunningNode {
 public:
  template <class Config>
  RunningNode(const Endpoint& listen, const Config& config)
      : node_(config),
        socket_(UdpSocket::open(listen).value()),
        waker_(Waker::create().value()),
        endpoint_(socket_.local()),
        thread_([this] {
          Driven<Node> driven(node_);
          EventLoop<Driven<Node>>(socket_, driven, *waker_).run();
        }) {}
  ~RunningNode() {
    waker_->stop();
    thread_.join();
  }

  const Endpoint& endpoint() const { return endpoint_; }
  // Read it only while nothing is in flight.
  const Node& node() const { return node_; }

 private:
  Node node_;
  UdpSocket socket_;
  std::unique_ptr<Waker> waker_;
  Endpoint endpoint_;
  std::thread thread_;
};

inline Endpoint loopback(std::uint16_t port = 0) { return Endpoint::ipv4(127, 0, 0, 1, port); }

class TestingCluster {
 public:
  explicit TestingCluster(std::size_t world_size) : world_size_(world_size) {
    start_server();
    start_switch();
  }

  void start_server(std::uint16_t port = 0) {
    ServerConfig config;
    config.boot_id = std::random_device{}();
    config.secret = {std::random_device{}(), std::random_device{}()};
    server_.emplace(loopback(port), config);
  }
  void stop_server() { server_.reset(); }
  void start_switch(std::uint16_t port = 0) {
    SwitchConfig config;
    config.upstream = UpstreamPolicy({Prefix{loopback().address, 104}});
    switch_.emplace(loopback(port), config);
  }
  void stop_switch() { switch_.reset(); }

  std::size_t world_size() const { return world_size_; }
  const RunningNode<Server>& server() const { return *server_; }
  const RunningNode<SwitchNode>& switch_node() const { return *switch_; }

  // With short time-outs; a test that waits for one of them changes it.
  CommunicatorOptions options(std::size_t rank) const {
    CommunicatorOptions options;
    options.job = {job_, 1};
    options.rank = static_cast<Rank>(rank);
    options.world_size = world_size_;
    options.route = {switch_->endpoint(), server_->endpoint()};
    options.values_per_fragment = 350;
    options.join_timeout = std::chrono::seconds(20);
    options.operation_timeout = std::chrono::seconds(20);
    return options;
  }

 private:
  std::size_t world_size_;
  std::uint32_t job_ = std::random_device{}();
  std::optional<RunningNode<Server>> server_;
  std::optional<RunningNode<SwitchNode>> switch_;
};

// Runs body(rank) for every rank at the same time, each in a thread.
template <class Body>
void in_parallel(std::size_t world_size, const Body& body) {
  std::vector<std::thread> threads;
  threads.reserve(world_size);
  for (std::size_t rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&body, rank] { body(rank); });
  }
  for (std::thread& thread : threads) thread.join();
}

// A rank that joins and then vanishes silently when destroyed, like a killed process.
class DoomedRank {
 public:
  explicit DoomedRank(const CommunicatorOptions& options)
      : session_(worker_config(options), FailureContext{.route = options.route},
                 [](const std::string&) {}),
        socket_(UdpSocket::open(any_address_for(options.route)).value()),
        waker_(Waker::create().value()),
        thread_([this] {
          session_.worker().start(clock_now());
          Driven<Worker, Tensors> driven(session_.worker(), session_.tensors(),
                                         [this](Instant now) {
                                           session_.on_round(now);
                                           return kNever;
                                         });
          EventLoop<Driven<Worker, Tensors>>(socket_, driven, *waker_).run();
        }) {}
  ~DoomedRank() {
    waker_->stop();
    thread_.join();
  }

 private:
  static WorkerConfig worker_config(const CommunicatorOptions& options) {
    WorkerConfig config;
    config.job = options.job;
    config.rank = options.rank;
    config.world_size = static_cast<std::uint16_t>(options.world_size);
    config.nonce = std::random_device{}();
    config.max_value_count = static_cast<std::uint16_t>(options.values_per_fragment);
    config.number_format = options.number_format;
    config.stream_count = options.number_format == NumberFormat::kFixed ? 1 : 2;
    for (const Endpoint& hop : options.route) config.route.push_back(hop);
    return config;
  }

  WorkerSession session_;
  UdpSocket socket_;
  std::unique_ptr<Waker> waker_;
  std::thread thread_;
};

using Communicators = std::vector<std::unique_ptr<Communicator>>;

// All ranks of `options` join at the same time.
inline std::vector<Result<std::unique_ptr<Communicator>>> join(
    const std::vector<CommunicatorOptions>& options) {
  std::vector<Result<std::unique_ptr<Communicator>>> joined;
  joined.reserve(options.size());
  for (std::size_t i = 0; i < options.size(); ++i) joined.emplace_back(Error{"not tried"});
  in_parallel(options.size(),
              [&](std::size_t i) { joined[i] = Communicator::connect(options[i]); });
  return joined;
}

inline std::vector<CommunicatorOptions> all_options(const TestingCluster& cluster) {
  std::vector<CommunicatorOptions> options;
  options.reserve(cluster.world_size());
  for (std::size_t rank = 0; rank < cluster.world_size(); ++rank) {
    options.push_back(cluster.options(rank));
  }
  return options;
}

using HostOf = std::vector<std::size_t>;

// Ranks on several hosts, all simulated on this one; `host_of`: by rank.
inline std::vector<CommunicatorOptions> options_on(const TestingCluster& cluster,
                                                   const HostOf& host_of) {
  std::vector<CommunicatorOptions> options = all_options(cluster);
  for (auto& each : options) {
    ++each.job.job;  // not that of the job in which every rank sends for itself
    each.host_of = host_of;
  }
  return options;
}

// Of ranks that share memory, without a switch or a server.
inline std::vector<CommunicatorOptions> memory_options(std::size_t ranks) {
  const std::uint32_t job = std::random_device{}();
  std::vector<CommunicatorOptions> options(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    options[rank].job = {job, 1};
    options[rank].rank = static_cast<Rank>(rank);
    options[rank].world_size = ranks;
    options[rank].host_memory = true;
    options[rank].join_timeout = std::chrono::seconds(20);
    options[rank].operation_timeout = std::chrono::seconds(20);
  }
  return options;
}

inline Communicators join_all(const std::vector<CommunicatorOptions>& options) {
  Communicators communicators;
  for (auto& result : join(options)) {
    EXPECT_TRUE(result.ok()) << result.error().message;
    communicators.push_back(std::move(result).value());
  }
  return communicators;
}

inline Communicators join_all(const TestingCluster& cluster) {
  return join_all(all_options(cluster));
}

inline void shut_down(const Communicators& communicators) {
  in_parallel(communicators.size(),
              [&](std::size_t rank) { EXPECT_EQ(message(communicators[rank]->shutdown()), ""); });
}

}  // namespace atp::testing
