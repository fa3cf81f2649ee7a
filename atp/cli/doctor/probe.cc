#include "atp/cli/doctor/probe.h"

#include <sys/socket.h>
#include <sys/timex.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "atp/base/system_random.h"
#include "atp/cli/command/machine.h"
#include "atp/cli/doctor/ask_status.h"
#include "atp/cli/doctor/probe_socket.h"
#include "atp/core/outbox.h"
#include "atp/driver/udp/address.h"
#include "atp/driver/udp/path_mtu.h"
#include "atp/driver/udp/route_mtu.h"
#include "atp/driver/udp/socket.h"
#include "atp/wire/status.h"

namespace atp {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::size_t kBufferBytes = std::size_t{4} << 20;  // what UdpSocket requests
constexpr std::size_t kQuestions = 50;
constexpr std::size_t kQuestionsIntoSilence = 4;  // then give up
constexpr milliseconds kPacketPatience{250};      // per packet
constexpr int kTrials = 3;                        // per size, in which only the control is answered
constexpr int kTrialsWithLoss = 10;
constexpr int kMaxTrials = 20;  // per size, including those in which nothing is answered
// A node answers one sender once per 10 ms (AnswerPacer).
constexpr milliseconds kBetween{15};
// Fewer than a node answers at once to one address, after a pause that restores its allowance.
constexpr std::size_t kTrainPackets = 40;
constexpr int kTrains = 3;
constexpr milliseconds kBetweenTrains{500};

// Sends one node several kinds of packets and records the answers.
class Probe {
 public:
  Probe(const Endpoint& to, ProbeSocket socket, NodeFacts& facts)
      : to_(to), socket_(std::move(socket)), facts_(facts) {}

  // Measures whether the node answers, how fast, and how reliably.
  void ask() {
    while (facts_.questions < kQuestions && facts_.refused == Refused::kNo &&
           (facts_.answers > 0 || facts_.questions < kQuestionsIntoSilence)) {
      ask_once();
    }
    std::sort(facts_.round_trips.begin(), facts_.round_trips.end());
  }

  // Finds the largest packet that arrives, between kLeastMtu and the interface's MTU.
  void find_path_mtu() {
    std::uint16_t arrives = values_for_mtu(kLeastMtu);
    std::uint16_t too_many = values_for_mtu(facts_.device_mtu) + 1;
    std::uint16_t next = too_many - 1;
    std::size_t told = 0;
    while (arrives < next && next < too_many) {
      const Outcome outcome = try_size(next);
      facts_.mtu_is_known = !outcome.undecided;
      if (outcome.undecided) return;
      if (!outcome.arrived) told = outcome.told;
      (outcome.arrived ? arrives : too_many) = next;
      next = outcome.told > 0 ? values_for_mtu(outcome.told) : between(arrives, too_many);
    }
    facts_.told_of_mtu = told > 0;
    const bool as_told = arrives == values_for_mtu(told);
    facts_.path_mtu = as_told ? told : mtu_of(arrives);
  }

  // Estimates the bandwidth from a few short trains of full packets.
  void send_trains() {
    for (int train = 0; train < kTrains; ++train) {
      std::this_thread::sleep_for(kBetweenTrains);
      send_train();
    }
  }

 private:
  // Of the control packets. Any path should pass them: IPv6 guarantees 1280, but firewalls drop
  // packets by other limits.
  static constexpr std::size_t kLeastMtu = 256;
  static constexpr std::array<std::size_t, 3> kCommonMtus = {1280, 1500, 9000};

  struct Outcome {
    bool arrived = false;
    std::size_t told = 0;    // the path MTU that ICMP reported
    bool undecided = false;  // the node answered nothing
  };

  void ask_once() {
    StatusMessage question;
    question.code = StatusCode::kAreYouThere;
    question.nonce = random_seed();
    if (!put_status(outbox_, ControlHead{}, RankSet::of(0), question)) return;
    asked_[question.nonce] = Clock::now();
    ++facts_.questions;
    if (!send_question()) return;
    const auto until = Clock::now() + kPacketPatience;
    while (asked_.contains(question.nonce) && facts_.refused == Refused::kNo) {
      if (!listen_for_answers(until)) return;
    }
    std::this_thread::sleep_for(kBetween);
  }

  // False on time-out.
  bool listen_for_answers(Clock::time_point until) {
    const ProbeSocket::Heard heard = socket_.listen(until);
    if (heard.nothing()) return false;
    if (heard.refused != Refused::kNo) {
      facts_.refused = heard.refused;
      facts_.refused_by = heard.refused_by;
      return true;
    }
    const ParsedPacket packet = parse_packet(heard.packet);
    if (!packet.ok() || packet.view().type() != PacketType::kStatus) return true;
    const auto status = StatusMessage::read(packet.view());
    if (!status || status->code != StatusCode::kHere) return true;
    const auto asked = asked_.find(status->nonce);
    if (asked == asked_.end()) return true;
    facts_.round_trips.push_back(
        std::chrono::duration_cast<microseconds>(Clock::now() - asked->second));
    asked_.erase(asked);
    ++facts_.answers;
    return true;
  }

  bool send_question() {
    outbox_.send_to(to_);
    const Refused refused = socket_.send(outbox_.bytes_of(outbox_.packets().front()));
    outbox_.clear();
    if (refused != Refused::kNo) facts_.refused = refused;
    return refused == Refused::kNo;
  }

  // A fragment of a job that does not exist: every node answers that it does not know the job.
  static std::vector<std::uint8_t> fragment(const JobKey& job, std::uint16_t values, Rank rank) {
    atp_header header{};
    header.version = ATP_VERSION;
    header.type = ATP_GRADIENT;
    header.bitmap_words = 1;
    header.job = job.job;
    header.incarnation = job.incarnation;
    header.sequence = random_seed();
    header.value_count = values;
    header.hops = 1;
    std::vector<std::uint8_t> bytes(atp_packet_bytes(1, ATP_KIND_SUM_PLAIN, values));
    write_packet_head(bytes.data(), header, RankSet::of(rank));
    return bytes;
  }

  static JobKey draw_job() {
    return {static_cast<std::uint32_t>(random_seed()), static_cast<std::uint32_t>(random_seed())};
  }

  static bool is_of(std::span<const std::uint8_t> bytes, const JobKey& job) {
    const ParsedPacket packet = parse_packet(bytes);
    return packet.ok() && packet.view().job() == job;
  }

  // The next size to try: a common one, which is the likeliest, else the middle. Returns `arrives`
  // when the search is over.
  static std::uint16_t between(std::uint16_t arrives, std::uint16_t too_many) {
    for (const std::size_t common : kCommonMtus) {
      const std::uint16_t values = values_for_mtu(common);
      if (arrives < values && values < too_many) return values;
    }
    return static_cast<std::uint16_t>((arrives + too_many) / 2 / 2 * 2);
  }

  // Fragments grow in steps of eight bytes.
  std::size_t mtu_of(std::uint16_t values) const {
    if (values == values_for_mtu(facts_.device_mtu)) return facts_.device_mtu;
    const std::size_t bytes =
        atp_packet_bytes(1, ATP_KIND_SUM_PLAIN, values) + ip_udp_header_bytes(to_);
    for (const std::size_t common : kCommonMtus) {
      if (bytes <= common && common < bytes + 8) return common;
    }
    return bytes;
  }

  milliseconds patience_with_answers() const {
    const microseconds worst =
        facts_.round_trips.empty() ? microseconds(0) : facts_.round_trips.back();
    return std::min(kPacketPatience, milliseconds(50) + std::chrono::ceil<milliseconds>(2 * worst));
  }

  // Sends a packet of this size, and after it a small one as a control: only when the small one is
  // answered does silence about the large one mean anything. A node that is kept waiting for a
  // processor answers neither.
  Outcome try_size(std::uint16_t values) {
    Outcome outcome;
    int silences = facts_.answers < facts_.questions ? kTrialsWithLoss : kTrials;
    for (int trial = 0; trial < kMaxTrials && silences > 0; ++trial) {
      const JobKey job = draw_job();
      const JobKey control = draw_job();
      socket_.send(fragment(job, values, 0));
      socket_.send(fragment(control, values_for_mtu(kLeastMtu), 0));
      bool is_silence = false;
      auto until = Clock::now() + kPacketPatience;
      while (!outcome.arrived && outcome.told == 0) {
        const ProbeSocket::Heard heard = socket_.listen(until);
        if (heard.nothing()) break;
        outcome.arrived = is_of(heard.packet, job);
        // Ignore a report of a path MTU for which this size is not too large.
        if (values_for_mtu(heard.too_big_for) < values) outcome.told = heard.too_big_for;
        if (is_silence || !is_of(heard.packet, control)) continue;
        is_silence = true;
        until = Clock::now() + patience_with_answers();  // packets and reports may be reordered
      }
      if (outcome.arrived || outcome.told > 0) break;
      if (is_silence) --silences;
      std::this_thread::sleep_for(kBetween);
    }
    std::this_thread::sleep_for(kBetween);
    outcome.undecided = !outcome.arrived && outcome.told == 0 && silences > 0;
    return outcome;
  }

  // A train takes longer than one packet, by the time that its bytes need on the narrowest link, or
  // in the node if that is slower.
  void send_train() {
    const JobKey job = draw_job();
    const std::uint16_t values = values_for_mtu(facts_.path_mtu);
    std::vector<std::vector<std::uint8_t>> train;
    train.reserve(kTrainPackets);
    for (Rank rank = 0; rank < kTrainPackets; ++rank) train.push_back(fragment(job, values, rank));
    const auto start = Clock::now();
    for (const auto& packet : train) socket_.send(packet);
    std::size_t answers = 0;
    auto last = start;
    const auto until = Clock::now() + kPacketPatience;
    while (answers < kTrainPackets) {
      const ProbeSocket::Heard heard = socket_.listen(until);
      if (heard.nothing()) break;
      if (!is_of(heard.packet, job)) continue;
      ++answers;
      last = Clock::now();
    }
    facts_.train_packets += kTrainPackets;
    facts_.train_answers += answers;
    const std::chrono::duration<double, std::micro> took = last - start - facts_.round_trips[0];
    if (answers < kTrainPackets || took.count() <= 0) return;
    const std::size_t bytes = train[0].size() + ip_udp_header_bytes(to_);
    const double bits = static_cast<double>(8 * bytes * (kTrainPackets - 1));
    facts_.mbit_per_s = std::max(facts_.mbit_per_s, bits / took.count());
  }

  const Endpoint to_;
  ProbeSocket socket_;
  NodeFacts& facts_;
  Outbox outbox_{1, std::size_t{1} << 12};
  std::map<std::uint64_t, Clock::time_point> asked_;  // unanswered, by nonce
};

NodeFacts look_at(const Endpoint& node) {
  NodeFacts facts{.address = to_string(node)};
  Result<ProbeSocket> socket = ProbeSocket::connect(node);
  const Result<std::size_t> mtu = route_mtu(node);
  if (!socket || !mtu) {
    facts.no_way = (!socket ? socket.error() : mtu.error()).message;
    return facts;
  }
  facts.from = socket.value().own_host();
  facts.interface = interface_with(facts.from);
  facts.device_mtu = facts.path_mtu = mtu.value();
  Probe probe(node, std::move(socket).value(), facts);
  probe.ask();
  ask_status(node, facts);
  if (facts.answers == 0) return facts;
  probe.find_path_mtu();
  if (facts.mtu_is_known) probe.send_trains();
  return facts;
}

// Half of what the kernel reports, which includes its overhead.
std::size_t buffer_of(const UdpSocket& socket, int option) {
  int bytes = 0;
  socklen_t length = sizeof bytes;
  getsockopt(socket.fd(), SOL_SOCKET, option, &bytes, &length);
  return static_cast<std::size_t>(bytes) / 2;
}

void read_clock(HostFacts& facts) {
  timex state{};
  const int verdict = adjtimex(&state);
  facts.clock_is_known = verdict >= 0;
  facts.clock_is_synchronized = verdict != TIME_ERROR && (state.status & STA_UNSYNC) == 0;
  facts.clock_error = std::chrono::microseconds(state.esterror);
}

}  // namespace

HostFacts look_around(const std::vector<Endpoint>& nodes) {
  HostFacts facts{.wanted_buffer = kBufferBytes};
  if (const auto socket = UdpSocket::open(any_address_for(nodes))) {
    facts.receive_buffer = buffer_of(socket.value(), SO_RCVBUF);
    facts.send_buffer = buffer_of(socket.value(), SO_SNDBUF);
  }
  read_clock(facts);
  for (const Endpoint& node : nodes) facts.nodes.push_back(look_at(node));
  return facts;
}

}  // namespace atp
