#include "atp/driver/udp/path_probe.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <utility>

#include "atp/base/system_random.h"
#include "atp/core/outbox.h"
#include "atp/driver/udp/address.h"
#include "atp/driver/udp/path_mtu.h"
#include "atp/driver/udp/receive_batch.h"
#include "atp/driver/udp/send_batch.h"
#include "atp/driver/udp/socket.h"

namespace atp {
namespace {

using SteadyClock = std::chrono::steady_clock;

// A path that gives no answer is tried this many times, each time for this long.
constexpr int kTrials = 3;
constexpr std::chrono::milliseconds kPatience{50};

// Sends fragments of a job that does not exist to one address, and watches for answers and errors.
class PathProbe {
 public:
  PathProbe(const Endpoint& to, UdpSocket socket) : to_(to), socket_(std::move(socket)) {}

  // The MTU of the path, at most `most`.
  std::size_t mtu(std::size_t most) {
    std::size_t mtu = most;
    for (int trials = kTrials; trials > 0 && values_for_mtu(mtu) > 0; --trials) {
      const Outcome outcome = try_once(mtu);
      if (outcome.arrived) break;
      if (outcome.too_big < mtu) {
        mtu = outcome.too_big;
        trials = kTrials + 1;
      }
    }
    return mtu;
  }

 private:
  struct Outcome {
    bool arrived = false;
    std::size_t too_big = SIZE_MAX;  // the MTU that an error has reported
  };

  Outcome try_once(std::size_t mtu) {
    const JobKey job = put_fragment(values_for_mtu(mtu));
    sender_.send(socket_, outbox_, counters_);
    outbox_.clear();
    const SteadyClock::time_point end = SteadyClock::now() + kPatience;
    Outcome outcome;
    while (!outcome.arrived && outcome.too_big >= mtu && wait_until(end)) listen(job, outcome);
    return outcome;
  }

  // Returns the fragment's random job: an answer about it proves that the fragment has arrived.
  JobKey put_fragment(std::uint16_t values) {
    atp_header header{};
    header.version = ATP_VERSION;
    header.type = ATP_GRADIENT;
    header.bitmap_words = 1;
    header.job = static_cast<std::uint32_t>(random_seed());
    header.incarnation = static_cast<std::uint32_t>(random_seed());
    header.sequence = random_seed();
    header.value_count = values;
    header.hops = 1;
    const std::span<std::uint8_t> bytes =
        outbox_.reserve(atp_packet_bytes(1, ATP_KIND_SUM_PLAIN, values));
    std::fill(bytes.begin(), bytes.end(), std::uint8_t{0});
    write_packet_head(bytes.data(), header, RankSet::of(0));
    outbox_.send_to(to_);
    return {header.job, header.incarnation};
  }

  void listen(const JobKey& job, Outcome& outcome) {
    receiver_.receive(socket_, counters_, [&](const ReceiveBatch::Datagram& datagram) {
      const ParsedPacket packet = parse_packet(datagram.bytes);
      outcome.arrived |= datagram.from == to_ && packet.ok() && packet.view().job() == job;
    });
    receiver_.receive_errors(
        socket_, sender_.sent_heads(), counters_,
        [&](const Endpoint&) { outcome.arrived = true; },  // nobody listens, but it arrived
        [&](const Endpoint&, std::size_t mtu) {
          outcome.too_big = std::min(outcome.too_big, mtu);
        });
  }

  // False: nothing has arrived by then.
  bool wait_until(SteadyClock::time_point end) const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - SteadyClock::now());
    if (left.count() <= 0) return false;
    pollfd waiting{socket_.fd(), POLLIN, 0};
    return poll(&waiting, 1, static_cast<int>(left.count())) > 0;
  }

  const Endpoint to_;
  UdpSocket socket_;
  Outbox outbox_{1, std::size_t{1} << 14};
  SendBatch sender_;
  ReceiveBatch receiver_;
  UdpCounters counters_;
};

}  // namespace

Result<std::size_t> probe_path(const Endpoint& to, std::size_t most, PortRange ports) {
  Result<UdpSocket> socket = UdpSocket::open(any_address_for(std::span(&to, 1)), ports);
  if (!socket) return socket.error();
  return PathProbe(to, std::move(socket).value()).mtu(most);
}

}  // namespace atp
