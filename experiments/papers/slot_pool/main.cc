// SwitchML's static pool of slots with a fixed time-out (NSDI '21, §3.5), as real processes: what
// experiments/papers/lossy_worker.py compares the product with. It shares no code with the product.
//
//     slot_pool switch ADDRESS:PORT WORKERS SLOTS STATS_FILE
//     slot_pool worker ADDRESS:PORT RANK WORKERS SLOTS TIMEOUT_MS BYTES SECONDS
//
// The switch writes a line of counters per 10 ms. Workers sum int32 tensors of BYTES each, one by
// one, for SECONDS, check every element of every sum, and print their counters at the end. Exit
// codes: 1 if a sum is wrong, 2 for wrong usage.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "experiments/papers/slot_pool/pool_socket.h"
#include "experiments/papers/slot_pool/pool_switch.h"
#include "experiments/papers/slot_pool/pool_worker.h"

namespace {

using namespace slot_pool;
using Clock = Time::clock;

constexpr Duration kStatsInterval = std::chrono::milliseconds(10);

Duration seconds(double value) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

// A line as `atp switch --stats` writes it.
void write_stats(std::FILE* file, const SwitchCounters& counters, std::uint64_t unsent) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  std::fprintf(file,
               "{\"time_s\": %.3f, \"counters\": {\"fragments_completed\": %lu, \"repeats\": %lu, "
               "\"answered_again\": %lu, \"late\": %lu, \"unsent\": %lu}}\n",
               now.count(), counters.completed, counters.repeats, counters.answered, counters.late,
               unsent);
  std::fflush(file);
}

int run_switch(const sockaddr_in& address, std::uint32_t workers, std::uint32_t slots,
               const char* stats) {
  std::FILE* file = std::fopen(stats, "w");
  if (file == nullptr) {
    std::perror(stats);
    return 2;
  }
  PoolSocket socket(&address);
  PoolSwitch pool(workers, slots);
  std::vector<sockaddr_in> peers(workers);
  std::puts("listening on");
  std::fflush(stdout);
  for (Time due = Clock::now();;) {
    socket.receive(due, [&](const PoolPacket& packet, const sockaddr_in& from) {
      const Verdict verdict = pool.handle_packet(packet);
      if (packet.rank < workers) peers[packet.rank] = from;
      if (verdict == Verdict::kAnswerOne) socket.send(pool.sum(packet.chunk), from);
      if (verdict != Verdict::kAnswerAll) return;
      for (const sockaddr_in& peer : peers) socket.send(pool.sum(packet.chunk), peer);
    });
    socket.flush();
    if (Clock::now() < due) continue;
    write_stats(file, pool.counters(), socket.unsent());
    due = Clock::now() + kStatsInterval;
  }
}

struct Job {
  std::uint32_t rank, workers;
  std::size_t values;
  Duration length;
};

// What a rank adds to an element: different in each, so that a value in a wrong place is noticed.
std::int32_t value_at(std::uint32_t rank, std::uint32_t round, std::size_t index) {
  const auto mixed = (static_cast<std::uint32_t>(index) + round) * 2654435761U;
  return static_cast<std::int32_t>(mixed >> 8) * static_cast<std::int32_t>(rank + 1);
}

// How many elements are wrong, but for the first one.
std::size_t wrong(const std::vector<std::int32_t>& tensor, std::uint32_t workers,
                  std::uint32_t round) {
  const std::uint32_t times = workers * (workers + 1) / 2;
  std::size_t count = 0;
  for (std::size_t i = 1; i < tensor.size(); ++i) {
    const auto expected = static_cast<std::uint32_t>(value_at(0, round, i)) * times;
    count += static_cast<std::uint32_t>(tensor[i]) != expected;
  }
  return count;
}

void print_counters(const WorkerCounters& counters, std::uint64_t unsent) {
  const double repairs_ms = std::chrono::duration<double, std::milli>(counters.repairs).count();
  std::printf("# sent %lu\n# repeats %lu\n# unneeded_answers %lu\n# repaired %lu\n# unsent %lu\n",
              counters.sent, counters.repeats, counters.unneeded_answers, counters.repaired,
              unsent);
  std::printf("# repairs_ms %.1f\n", repairs_ms);
}

int run_worker(const sockaddr_in& address, const Job& job, std::uint32_t slots, Duration timeout) {
  PoolSocket socket(nullptr);
  PoolWorker worker(job.rank, slots, timeout,
                    [&](const PoolPacket& packet) { socket.send(packet, address); });
  std::vector<std::int32_t> tensor(job.values);
  const Time end = Clock::now() + job.length;
  // The first element is a rank's wish to stop, so all ranks stop after the same sum.
  tensor.front() = 0;
  for (std::uint32_t round = 0; tensor.front() == 0; ++round) {
    for (std::size_t i = 0; i < job.values; ++i) tensor[i] = value_at(job.rank, round, i);
    tensor.front() = Clock::now() > end ? 1 : 0;
    worker.begin(Clock::now(), tensor);
    socket.flush();
    while (!worker.done()) {
      socket.receive(worker.next_timeout(), [&](const PoolPacket& packet, const sockaddr_in&) {
        worker.handle_packet(Clock::now(), packet);
      });
      worker.handle_timeout(Clock::now());
      socket.flush();
    }
    if (const std::size_t count = wrong(tensor, job.workers, round); count > 0) {
      std::fprintf(stderr, "rank %u: %zu values of sum %u are wrong\n", job.rank, count, round);
      return 1;
    }
  }
  print_counters(worker.counters(), socket.unsent());
  // The words of `atp bench`, for programs that run either.
  if (job.rank == 0) std::puts("# Out of bounds values : 0 OK");
  return 0;
}

std::uint32_t number(const char* text) {
  return static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

int usage() {
  std::fputs(
      "usage: slot_pool switch ADDRESS:PORT WORKERS SLOTS STATS_FILE\n"
      "       slot_pool worker ADDRESS:PORT RANK WORKERS SLOTS TIMEOUT_MS BYTES SECONDS\n",
      stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view role = argc > 1 ? argv[1] : "";
  const auto address = argc > 2 ? parse_address(argv[2]) : std::nullopt;
  if (!address) return usage();
  if (role == "switch" && argc == 6) {
    const std::uint32_t workers = number(argv[3]), slots = number(argv[4]);
    if (workers < 1 || workers > kMaxWorkers || slots < 1) return usage();
    return run_switch(*address, workers, slots, argv[5]);
  }
  if (role == "worker" && argc == 9) {
    const Job job{number(argv[3]), number(argv[4]), number(argv[7]) / sizeof(std::int32_t),
                  seconds(std::atof(argv[8]))};
    const std::uint32_t slots = number(argv[5]);
    if (job.rank >= job.workers || slots < 1 || job.values < 2) return usage();
    return run_worker(*address, job, slots, seconds(std::atof(argv[6]) / 1000));
  }
  return usage();
}
