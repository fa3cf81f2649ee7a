#include <cstdio>
#include <cstring>
#include <iostream>
#include <vector>

#include "atp/cli/command/command.h"
#include "atp/sim/network.h"

// Sends the packets of a list over the simulator's network, from hosts around a switch to the last
// of them, and prints when each arrived: "PICOSECONDS MARKED" per packet, or "lost". The list, from
// standard input, has a line per packet: when it is sent, its host, its bytes of UDP payload.

namespace atp::ns3 {
namespace {

struct Setup {
  std::uint32_t hosts = 2;
  double gbit = 100;
  sim::LinkPlan link;  // all but the rate of the last host's
  std::uint32_t delay_ns = 1000;
  std::uint32_t host_ns = 0;
};

class Run {
 public:
  explicit Run(const Setup& setup) {
    sim::LinkPlan link = setup.link;
    link.bits_per_s = 100'000'000'000;
    link.delay = std::chrono::nanoseconds(setup.delay_ns);
    link.packet_time = std::chrono::nanoseconds(setup.host_ns);
    for (std::uint32_t host = 0; host + 1 < setup.hosts; ++host) network_.add_host(0, link, {});
    link.bits_per_s = static_cast<std::uint64_t>(setup.gbit * 1e9);
    receiver_ = network_.add_host(0, link, {});
  }

  void add(sim::Picoseconds when, sim::HostId host, std::uint32_t bytes) {
    std::vector<std::uint8_t> payload(bytes);
    const std::size_t number = arrivals_.size();
    std::memcpy(payload.data(), &number, sizeof number);
    sim::Network::Flight flight{.sender = host, .receiver = receiver_, .length = bytes};
    flight.payload = network_.put_payload(payload);
    network_.send(0, flight, when);
    network_.drop_payload(flight.payload);
    arrivals_.push_back({});
  }

  void play() {
    while (const auto event = network_.take_next(sim::kNeverPs - 1)) {
      const sim::Network::Flight& flight = network_.flight(event->index);
      std::size_t number = 0;
      std::memcpy(&number, network_.bytes_of(flight).data(), sizeof number);
      arrivals_[number] = {network_.now(), flight.marked};
      network_.end_flight(event->index);
    }
  }

  void print() const {
    for (const Arrival& arrival : arrivals_) {
      if (arrival.when == sim::kNeverPs) {
        std::puts("lost");
      } else {
        std::printf("%lld %d\n", static_cast<long long>(arrival.when), arrival.marked ? 1 : 0);
      }
    }
  }

 private:
  struct Arrival {
    sim::Picoseconds when = sim::kNeverPs;
    bool marked = false;
  };

  sim::Network network_;
  sim::HostId receiver_ = sim::kNoHost;
  std::vector<Arrival> arrivals_;
};

}  // namespace
}  // namespace atp::ns3

int main(int argc, char** argv) {
  atp::CommandLine program("network_arrivals", "Send a list of packets over a simulated network");
  atp::ns3::Setup setup;
  program.add_option("--hosts", setup.hosts, "").in_range(2, 1000);
  program.add_option("--gbit", setup.gbit, "").number_between(0.001, 10'000);
  program.add_option("--delay-ns", setup.delay_ns, "");
  program.add_option("--host-ns", setup.host_ns, "");
  program.add_option("--queue-bytes", setup.link.queue_bytes, "");
  program.add_option("--ecn-bytes", setup.link.ecn_bytes, "");
  try {
    program.parse({argv + 1, argv + argc});
  } catch (const atp::UsageError& error) {
    std::fprintf(stderr, "network_arrivals: %s\n", error.what());
    return atp::kWrongUsage;
  }
  atp::ns3::Run run(setup);
  atp::sim::Picoseconds when = 0;
  std::uint32_t host = 0;
  std::uint32_t bytes = 0;
  while (std::cin >> when >> host >> bytes) run.add(when, host, bytes);
  run.play();
  run.print();
}
