#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "atp/core/dataplane/switch_node.h"
#include "atp/core/server/server.h"
#include "atp/core/worker/worker.h"

// Which tree and job an input is about.

namespace atp::fuzz {

inline constexpr std::size_t kRanks = 2;
inline constexpr std::array kSwitches{Endpoint::ipv4(10, 0, 0, 1, 5501),
                                      Endpoint::ipv4(10, 0, 0, 3, 5501)};
inline constexpr Endpoint kServer = Endpoint::ipv4(10, 0, 0, 2, 5500);
inline constexpr Endpoint kStranger = Endpoint::ipv4(10, 9, 9, 9, 9);
inline constexpr std::array kWorkers{Endpoint::ipv4(10, 0, 1, 0, 7000),
                                     Endpoint::ipv4(10, 0, 1, 1, 7000)};
inline constexpr std::array kPlaces{kStranger,    kWorkers[0],  kWorkers[1],
                                    kSwitches[0], kSwitches[1], kServer};
inline constexpr std::uint16_t kValues = 8;  // per fragment

// The choices in the first byte.
class Scene {
 public:
  explicit Scene(std::uint8_t bits) : bits_(bits) {}

  NumberFormat format() const {
    constexpr std::array kFormats{NumberFormat::kBlocks, NumberFormat::kFixed, NumberFormat::kExact,
                                  NumberFormat::kBlocksInt16};
    return kFormats[bits_ & 3];
  }
  // Rank 1 behind both switches, or behind none.
  Route route(std::size_t rank) const {
    Route route;
    if (rank == 1 && has(4)) route.push_back(kSwitches[1]);
    if (rank == 0 || !has(8)) route.push_back(kSwitches[0]);
    route.push_back(kServer);
    return route;
  }
  std::uint32_t quota() const { return has(16) ? 2 : 0; }
  // With the larger one, the largest contributions do not fit.
  double scale() const { return has(32) ? 1 << 28 : 1 << 20; }
  bool goes_on_to_the_end() const { return has(64); }

 private:
  bool has(std::uint8_t bit) const { return (bits_ & bit) != 0; }

  std::uint8_t bits_;
};

inline WorkerConfig worker_config(const Scene& scene, std::size_t rank) {
  WorkerConfig config;
  config.job = {1, 2};
  config.rank = static_cast<Rank>(rank);
  config.world_size = kRanks;
  config.nonce = 100 + rank;
  config.stream_count = 2;
  config.max_value_count = kValues;
  config.number_format = scene.format();
  config.max_operations = 16;
  config.route = scene.route(rank);
  return config;
}

inline SwitchConfig switch_config(const Scene& scene) {
  SwitchConfig config;
  config.aggregators = 4;
  config.max_value_count = kValues;
  config.max_trees = 4;
  config.sharing.quota = scene.quota();
  config.upstream = UpstreamPolicy({Prefix{kServer.address, 96 + 24}});
  return config;
}

inline ServerConfig server_config(const Scene& scene, std::uint64_t boot_id) {
  ServerConfig config;
  config.boot_id = boot_id;
  config.wmax = 4;
  config.max_value_count = kValues;
  config.max_jobs = 4;
  config.float_slots = 2;
  config.scale = scene.scale();
  return config;
}

}  // namespace atp::fuzz
