#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <vector>

#include "atp/core/dataplane/switch_node.h"
#include "atp/core/server/server.h"
#include "atp/core/worker/worker.h"

// Two workers, a switch and a server, between which the input is the network: it says which packet
// is delivered next, lost, doubled or changed, what a stranger sends, and how time passes. Whatever
// it does, no node crashes or touches memory that is not its own. As long as it has changed no
// packet, every operation that completes has the right sum.

namespace {

using namespace atp;

constexpr std::size_t kRanks = 2;
constexpr Endpoint kSwitch = Endpoint::ipv4(10, 0, 0, 1, 5501);
constexpr Endpoint kServer = Endpoint::ipv4(10, 0, 0, 2, 5500);
constexpr Endpoint kStranger = Endpoint::ipv4(10, 9, 9, 9, 9);
constexpr std::array kWorkers{Endpoint::ipv4(10, 0, 1, 0, 7000), Endpoint::ipv4(10, 0, 1, 1, 7000)};
constexpr std::array kPlaces{kWorkers[0], kWorkers[1], kSwitch, kServer, kStranger};
constexpr std::uint16_t kValues = 8;  // per fragment

// All that the jobs of an input sum; each operation is one of them.
const std::array<OperationSpec, 6> kOperations{
    OperationSpec{.count = 20},
    OperationSpec{.count = 3, .small = true},
    OperationSpec{.count = 300, .reduction = Reduction::kAverage},
    OperationSpec{.count = 20, .type = DataType::kBFloat16, .format = NumberFormat::kBlocksInt16},
    OperationSpec{.count = 20, .type = DataType::kInt32},
    OperationSpec{.count = 20, .reduction = Reduction::kMax},
};

// Rank 0 contributes i mod 8 and rank 1 twice that, which is exact in every type and format.
float contribution(std::size_t i, std::size_t rank) {
  return static_cast<float>((i % 8) * (rank + 1));
}

float result_of(const OperationSpec& spec, std::size_t i) {
  const float sum = contribution(i, 0) + contribution(i, 1);
  if (spec.reduction == Reduction::kMax) return contribution(i, 1);
  return spec.reduction == Reduction::kAverage ? sum / 2 : sum;
}

class Tensor {
 public:
  Tensor(const OperationSpec& spec, std::size_t rank)
      : spec_(spec),
        bytes_(spec.count * bytes_of(spec.type)),
        layout_(spec.count),
        exponents_(layout_.blocks()) {
    for (std::size_t i = 0; i < spec.count; ++i) put(i, contribution(i, rank));
  }

  bool is_result() const {
    for (std::size_t i = 0; i < spec_.count; ++i) {
      if (get(i) != result_of(spec_, i)) return false;
    }
    return true;
  }

  std::span<std::byte> bytes() { return bytes_; }
  const BlockLayout& layout() const { return layout_; }
  std::span<std::int16_t> exponents() { return exponents_; }

 private:
  void put(std::size_t i, float value) {
    if (spec_.type == DataType::kInt32) {
      const auto integer = static_cast<std::int32_t>(value);
      std::memcpy(&bytes_[4 * i], &integer, sizeof integer);
    } else {
      const std::size_t size = bytes_of(spec_.type);  // a bfloat16 is a float32's upper half
      std::memcpy(&bytes_[size * i], reinterpret_cast<const char*>(&value) + 4 - size, size);
    }
  }
  float get(std::size_t i) const {
    float value = 0;
    const std::size_t size = bytes_of(spec_.type);
    if (spec_.type == DataType::kInt32) {
      std::int32_t integer = 0;
      std::memcpy(&integer, &bytes_[4 * i], sizeof integer);
      return static_cast<float>(integer);
    }
    std::memcpy(reinterpret_cast<char*>(&value) + 4 - size, &bytes_[size * i], size);
    return value;
  }

  OperationSpec spec_;
  std::vector<std::byte> bytes_;
  BlockLayout layout_;
  std::vector<std::int16_t> exponents_;
};

class RankTensors final : public Tensors {
 public:
  std::span<const std::byte> input(OperationId id) override { return all.at(id).bytes(); }
  std::span<std::byte> output(OperationId id) override { return all.at(id).bytes(); }
  const BlockLayout& layout(OperationId id) override { return all.at(id).layout(); }
  std::span<std::int16_t> exponents(OperationId id) override { return all.at(id).exponents(); }

  std::deque<Tensor> all;
};

struct Flying {
  Endpoint from;
  Endpoint to;
  std::vector<std::uint8_t> bytes;
};

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  std::uint8_t byte() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  std::vector<std::uint8_t> bytes(std::size_t count) {
    count = std::min(count, left_);
    std::vector<std::uint8_t> taken(data_, data_ + count);
    data_ += count;
    left_ -= count;
    return taken;
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

WorkerConfig worker_config(std::size_t rank) {
  WorkerConfig config;
  config.job = {1, 2};
  config.rank = static_cast<Rank>(rank);
  config.world_size = kRanks;
  config.nonce = 100 + rank;
  config.stream_count = 2;
  config.max_value_count = kValues;
  config.number_format = NumberFormat::kBlocks;
  config.max_operations = 16;
  config.route.push_back(kSwitch);
  config.route.push_back(kServer);
  return config;
}

SwitchConfig switch_config() {
  SwitchConfig config;
  config.aggregators = 4;
  config.max_value_count = kValues;
  config.max_trees = 4;
  config.upstream = UpstreamPolicy({Prefix{kServer.address, 96 + 24}});
  return config;
}

ServerConfig server_config() {
  ServerConfig config;
  config.wmax = 4;
  config.max_value_count = kValues;
  config.max_jobs = 4;
  config.float_slots = 2;
  return config;
}

class World {
 public:
  World()
      : switch_(switch_config()),
        server_(server_config()),
        workers_{Worker(worker_config(0)), Worker(worker_config(1))} {
    for (Worker& worker : workers_) worker.start(now_);
    pass_time(Duration{0});
  }

  void play(Input& input) {
    while (!input.empty()) act(input);
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
      case 5: tamper(input); break;
      case 6: pass_time(std::chrono::milliseconds(1 << (what / 8 % 8))); break;
      default: submit(what / 8); break;
    }
  }

  Flying take(std::size_t which) {
    if (flying_.empty()) return {};
    const auto at = flying_.begin() + static_cast<std::ptrdiff_t>(which % flying_.size());
    Flying packet = std::move(*at);
    flying_.erase(at);
    return packet;
  }

  // A byte of a packet, or what a stranger or somebody in another's name sends.
  void tamper(Input& input) {
    is_honest_ = false;
    const std::uint8_t how = input.byte();
    if (how % 2 == 0 && !flying_.empty()) {
      std::vector<std::uint8_t>& bytes = flying_[how / 2 % flying_.size()].bytes;
      const std::uint8_t at = input.byte();
      bytes[at % bytes.size()] = input.byte();
      if (at > 250) bytes.resize(bytes.size() / 2 + 1);
      return;
    }
    const Endpoint& from = kPlaces[how / 2 % kPlaces.size()];
    const Endpoint& to = kPlaces[how / 16 % 4];
    flying_.push_back({from, to, input.bytes(input.byte())});
    deliver(flying_.size() - 1);
  }

  void deliver(std::size_t which) {
    if (flying_.empty()) return;
    const Flying packet = take(which);
    if (packet.to == kSwitch) {
      switch_.handle_packet(now_, packet.from, packet.bytes, out_);
      send_from(kSwitch);
    } else if (packet.to == kServer) {
      server_.handle_packet(now_, packet.from, packet.bytes, out_);
      send_from(kServer);
    }
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      if (packet.to != kWorkers[rank]) continue;
      workers_[rank].handle_packet(now_, packet.from, packet.bytes, tensors_[rank], out_);
      run(rank);
    }
  }

  void submit(std::size_t which) {
    const OperationSpec& chosen = kOperations[which % kOperations.size()];
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      RankTensors& tensors = tensors_[rank];
      OperationSpec spec = chosen;
      Tensor tensor(spec, rank);
      spec.blocks = tensor.layout().blocks();
      spec.layout = tensor.layout().fingerprint();
      const auto id = workers_[rank].submit(now_, spec);
      if (!id) continue;  // it has not joined, or has no room
      if (*id != tensors.all.size()) std::abort();
      tensors.all.push_back(std::move(tensor));
      run(rank);
    }
    // Ranks of which one has refused disagree about what the next number means.
    is_honest_ = is_honest_ && tensors_[0].all.size() == tensors_[1].all.size();
  }

  void pass_time(Duration by) {
    now_ += by;
    if (switch_.next_timeout() <= now_) switch_.handle_timeout(now_, out_);
    send_from(kSwitch);
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
      if (event->kind != EventKind::kCompleted) continue;
      if (event->operation >= tensors_[rank].all.size()) std::abort();
      if (is_honest_ && !tensors_[rank].all[event->operation].is_result()) std::abort();
    }
  }

  void send_from(const Endpoint& place) {
    for (const OutPacket& packet : out_.packets()) {
      const auto bytes = out_.bytes_of(packet);
      if (flying_.size() < 64) flying_.push_back({place, packet.to, {bytes.begin(), bytes.end()}});
    }
    out_.clear();
  }

  Instant now_{std::chrono::seconds(1)};
  SwitchNode switch_;
  Server server_;
  std::array<Worker, kRanks> workers_;
  std::array<RankTensors, kRanks> tensors_;
  Outbox out_{64, std::size_t{1} << 18};
  std::deque<Flying> flying_;
  bool is_honest_ = true;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  World world;
  Input input(data, size);
  world.play(input);
  return 0;
}
