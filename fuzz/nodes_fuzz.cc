#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <optional>
#include <vector>

#include "atp/core/dataplane/switch_node.h"
#include "atp/core/server/server.h"
#include "atp/core/topology/testing_proof.h"
#include "atp/core/worker/worker.h"
#include "fuzz/input.h"
#include "fuzz/nodes_forger.h"
#include "fuzz/nodes_scene.h"
#include "fuzz/nodes_tensors.h"

// Two workers, two switches and a server; the input plays the network between them. Its first byte
// chooses the tree and the job. The rest decides which packet is delivered next, lost, doubled or
// changed, what a stranger sends, which node restarts or leaves, and how time passes. Whatever
// happens, no node may crash or access memory that is not its own. As long as no packet was
// changed, every completed operation must have the right sum, whatever strangers send. When the
// faults stop, every operation must end.

namespace {

using namespace atp;
using fuzz::Input;
using fuzz::kPlaces;
using fuzz::kRanks;
using fuzz::kServer;
using fuzz::kStranger;
using fuzz::kSwitches;
using fuzz::kWorkers;
using fuzz::Scene;

void demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

class World {
 public:
  explicit World(Scene scene)
      : scene_(scene),
        switches_{SwitchNode(switch_config(scene)), SwitchNode(switch_config(scene))},
        server_(server_config(scene, 1)),
        workers_{Worker(worker_config(scene, 0)), Worker(worker_config(scene, 1))} {
    for (Worker& worker : workers_) worker.start(now_);
    pass_time(Duration{0});
  }

  void play(Input& input) {
    while (!input.empty()) act(input);
    if (scene_.goes_on_to_the_end()) go_on();
  }

 private:
  void act(Input& input) {
    const std::uint8_t what = input.byte();
    switch (what % 8) {
      case 0:
      case 1:
      case 2: deliver(what / 8); break;
      case 3: take(what / 8); break;  // lost
      case 4:
        if (!flying_.empty()) flying_.push_back(flying_[what / 8 % flying_.size()]);
        break;
      case 5: interfere(what / 8, input); break;
      case 6: pass_time(std::chrono::milliseconds(1 << (what / 8 % 14))); break;
      default:
        what / 8 < 24 ? submit(what / 8 % 8, (1 << kRanks) - 1) : happen(what / 8 - 24, input);
        break;
    }
  }

  struct Flying {
    Endpoint from;
    Endpoint to;
    std::vector<std::uint8_t> bytes;
  };

  std::optional<Flying> take(std::size_t which) {
    if (flying_.empty()) return std::nullopt;
    const auto at = flying_.begin() + static_cast<std::ptrdiff_t>(which % flying_.size());
    Flying packet = std::move(*at);
    flying_.erase(at);
    return packet;
  }

  // Changes a packet in flight, or sends one that no node has sent: raw bytes, or an earlier packet
  // with a field changed, from a stranger or in another node's name. Every other such JOIN has the
  // right proof.
  void interfere(std::size_t how, Input& input) {
    if (how < 8 && !flying_.empty()) {
      fuzz::change(flying_[how % flying_.size()].bytes, input);
      is_honest_ = false;
      return;
    }
    const std::uint8_t places = input.byte();
    Flying packet{kPlaces[places / 5 % kPlaces.size()], kPlaces[1 + places % 5], {}};
    if (how < 16) {
      packet.bytes = input.bytes(input.byte());
    } else if (!seen_.empty()) {
      packet.bytes = seen_[input.byte() % seen_.size()];
      if (how < 28) fuzz::change(packet.bytes, input);
      if (how % 2 != 0) packet.bytes = proven(HashKey{}, packet.from, packet.bytes);
    }
    is_honest_ = is_honest_ && is_a_strangers(packet);
    deliver(packet);
  }

  // Packets that must not affect any sum. (A JOIN may take a rank that nobody holds.)
  static bool is_a_strangers(const Flying& packet) {
    const bool is_join = packet.bytes.size() > ATP_AT_TYPE && packet.bytes[ATP_AT_TYPE] == ATP_JOIN;
    return packet.from == kStranger && !is_join;
  }

  void deliver(std::size_t which) {
    if (const auto packet = take(which)) deliver(*packet);
  }

  void deliver(const Flying& packet) {
    for (std::size_t i = 0; i < kSwitches.size(); ++i) {
      if (packet.to != kSwitches[i]) continue;
      switches_[i].handle_packet(now_, packet.from, packet.to, packet.bytes, out_);
      send_from(kSwitches[i]);
    }
    if (packet.to == kServer) {
      server_.handle_packet(now_, packet.from, packet.to, packet.bytes, out_);
      send_from(kServer);
    }
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      if (packet.to != kWorkers[rank]) continue;
      workers_[rank].handle_packet(now_, packet.from, packet.bytes, tensors_[rank], out_);
      run(rank);
    }
  }

  void submit(std::size_t which, unsigned ranks) {
    OperationSpec spec = fuzz::kOperations[which % fuzz::kOperations.size()];
    // The fixed scale works only with float32.
    const bool is_narrow_sum = spec.type == DataType::kBFloat16;
    if (is_narrow_sum && scene_.format() == NumberFormat::kFixed) return;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      if ((ranks >> rank & 1) == 0) continue;
      fuzz::RankTensors& tensors = tensors_[rank];
      fuzz::Tensor tensor(spec, rank);
      spec.blocks = tensor.layout().blocks();
      spec.layout = tensor.layout().fingerprint();
      const auto id = workers_[rank].submit(now_, spec);
      if (!id) continue;  // it has not joined, or has no room
      demand(*id == tensors.all.size(), "an operation has the wrong number");
      tensors.all.push_back(std::move(tensor));
      ++open_[rank];
      run(rank);
    }
  }

  // Rare events.
  void happen(std::size_t what, Input& input) {
    const std::uint8_t which = input.byte();
    const std::size_t rank = which % kRanks;
    switch (what) {
      case 0: submit(which / 2 % 8, 1U << rank); break;
      case 1: workers_[rank].leave(now_, which < 128 ? "" : "the input says so"); break;
      case 2: switches_[rank] = SwitchNode(switch_config(scene_)); break;
      case 3: server_ = Server(server_config(scene_, ++boots_)); break;
      case 4:
        workers_[rank].handle_unreachable(now_, kPlaces[which / 2 % kPlaces.size()], tensors_[rank],
                                          out_);
        break;
      case 5: switches_[rank].set_congested(which < 128); break;
      case 6: server_.set_congested(which < 128); break;
      default: flying_.clear(); break;
    }
    run(rank);
  }

  void pass_time(Duration by) {
    now_ += by;
    for (std::size_t i = 0; i < kSwitches.size(); ++i) {
      if (switches_[i].next_timeout() <= now_) switches_[i].handle_timeout(now_, out_);
      send_from(kSwitches[i]);
    }
    if (server_.next_timeout() <= now_) server_.handle_timeout(now_, out_);
    send_from(kServer);
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      Worker& worker = workers_[rank];
      if (worker.next_timeout() <= now_) worker.handle_timeout(now_, tensors_[rank], out_);
      run(rank);
    }
  }

  void run(std::size_t rank) {
    workers_[rank].poll_transmit(now_, tensors_[rank], out_);
    send_from(kWorkers[rank]);
    while (const auto event = workers_[rank].poll_event()) {
      const bool ends = event->kind == EventKind::kCompleted || event->kind == EventKind::kFailed;
      if (!ends || event->operation == kNoOperation) continue;
      demand(event->operation < tensors_[rank].all.size(), "an operation that was never submitted");
      demand(open_[rank]-- > 0, "an operation ends twice");
      if (event->kind == EventKind::kFailed || !is_honest_) continue;
      demand(tensors_[rank].all[event->operation].is_result(), "a wrong sum");
    }
  }

  void send_from(const Endpoint& place) {
    for (const OutPacket& packet : out_.packets()) {
      const auto bytes = out_.bytes_of(packet);
      if (flying_.size() == kMostFlying) break;
      flying_.push_back({place, packet.to, {bytes.begin(), bytes.end()}});
      if (seen_.size() == 16) seen_.pop_front();
      seen_.push_back(flying_.back().bytes);
    }
    out_.clear();
  }

  bool is_open() const { return open_[0] > 0 || open_[1] > 0; }

  // Runs on without further faults.
  void go_on() {
    for (int step = 0; step < 4000 && is_open(); ++step) {
      for (std::size_t left = flying_.size(); left > 0; --left) deliver(0);
      if (!flying_.empty() || !is_open()) continue;
      Instant next = server_.next_timeout();
      for (const SwitchNode& node : switches_) next = std::min(next, node.next_timeout());
      for (const Worker& worker : workers_) next = std::min(next, worker.next_timeout());
      // After the end of all operations there may be no timer left, but not before it.
      demand(next != kNever, "an operation that waits for nothing");
      pass_time(std::max(next - now_, Duration{0}));
    }
    for (const int open : open_) demand(open == 0, "an operation that never ends");
  }

  static constexpr std::size_t kMostFlying = 64;

  const Scene scene_;
  Instant now_{std::chrono::seconds(1)};
  std::array<SwitchNode, 2> switches_;
  Server server_;
  std::uint64_t boots_ = 1;
  std::array<Worker, kRanks> workers_;
  std::array<fuzz::RankTensors, kRanks> tensors_;
  std::array<int, kRanks> open_{};  // operations that have not ended
  Outbox out_{64, std::size_t{1} << 18};
  std::deque<Flying> flying_;
  std::deque<std::vector<std::uint8_t>> seen_;  // the last packets sent, to forge others from
  bool is_honest_ = true;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  World world{Scene(input.byte())};
  world.play(input);
  return 0;
}
