#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <utility>

#include "atp/collective/shm/rendezvous.h"
#include "atp/collective/shm/unix_line.h"

// For the tests of the rendezvous: a job that nobody else has, and callers that are no ranks.

namespace atp {

inline JobKey new_job() { return {std::random_device{}(), 1}; }

inline std::string name_of(const JobKey& job) {
  return "atp-" + std::to_string(geteuid()) + "-" + std::to_string(job.job) + "-1";
}

// The line of a caller that has claimed to be this rank and said nothing more.
inline UnixLine line_of(const JobKey& job, std::uint32_t rank, std::uint32_t world_size,
                        std::uint32_t version = 0x41545037) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  Result<UnixLine> line = UnixLine::make();
  for (;;) {
    const Status called = line.value().call(name_of(job), until);
    if (!called && std::chrono::steady_clock::now() < until) continue;
    const std::uint32_t hello[20] = {version, rank, world_size, 20'000};
    static_cast<void>(line.value().send(std::as_bytes(std::span(hello))));
    return std::move(line).value();
  }
}

}  // namespace atp
