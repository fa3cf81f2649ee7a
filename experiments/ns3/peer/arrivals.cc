// Sends the packets of a list over ns-3's links; the counterpart of ../main.cc.

#include <cstdio>
#include <optional>

#include "experiments/ns3/peer/fabric.h"

namespace {

constexpr std::uint32_t kAround = 66;  // bytes around a UDP payload on the wire

struct Arrival {
  std::int64_t when_ps;
  bool marked;
};

}  // namespace

int main(int argc, char** argv) {
  ns3::Time::SetResolution(ns3::Time::PS);
  const peer::Options options(argc, argv);
  std::vector<std::optional<Arrival>> arrivals;
  peer::Fabric fabric;
  fabric.add_rack({});
  peer::LinkPlan link{100, options.count("delay-ns"), options.count("host-ns"),
                      options.count("queue-bytes"), options.count("ecn-bytes")};
  const std::uint32_t receiver = options.count("hosts") - 1;
  for (std::uint32_t host = 0; host < receiver; ++host) {
    fabric.add_host(0, link, [](const peer::Message&) {});
  }
  link.gbit = options.number("gbit");
  fabric.add_host(0, link, [&](const peer::Message& message) {
    arrivals[message.about] = {ns3::Simulator::Now().GetPicoSeconds(), message.ecn};
  });
  std::int64_t when = 0;
  peer::Message message{.to = receiver};
  while (std::cin >> when >> message.from >> message.wire_bytes) {
    message.wire_bytes += kAround;
    message.about = static_cast<std::uint32_t>(arrivals.size());
    ns3::Simulator::Schedule(ns3::PicoSeconds(when), [&fabric, message] { fabric.send(message); });
    arrivals.push_back(std::nullopt);
  }
  ns3::Simulator::Run();
  for (const auto& arrival : arrivals) {
    if (arrival) {
      std::printf("%ld %d\n", arrival->when_ps, arrival->marked ? 1 : 0);
    } else {
      std::puts("lost");
    }
  }
}
