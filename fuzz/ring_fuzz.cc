#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "atp/collective/ring/engine.h"
#include "atp/driver/tcp/hello.h"
#include "fuzz/input.h"
#include "fuzz/ring_tasks.h"

// The ranks of a ring; the input plays the network between them. It decides how many bytes go where
// and when, which are changed or added, which connection ends, what each rank submits, and how time
// passes. Whatever happens, no rank may access memory that is not its own, and no error text may
// contain terminal control characters. As long as no byte was changed, every completed operation
// must have the right result; and at the end, if nothing was cut off, all of them must complete.

namespace {

using namespace atp;
using fuzz::Input;
using fuzz::Task;

void demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

std::array<TcpSocket, 2> make_pair() {
  std::array<int, 2> fds{};
  demand(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()) == 0, "no sockets");
  return {TcpSocket(fds[0]), TcpSocket(fds[1])};
}

// One direction of a connection: passes what one end has sent to the other.
class Direction {
 public:
  Direction(int from, int to) : from_(from), to_(to) {}

  void take() {
    std::array<char, 4096> buffer;
    const ssize_t got = recv(from_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got > 0) held_.append(buffer.data(), static_cast<std::size_t>(got));
    has_ended_ = has_ended_ || got == 0;
  }
  bool give(std::size_t most) {
    if (held_.empty()) {
      if (has_ended_) shutdown(to_, SHUT_WR);
      return false;
    }
    const ssize_t put =
        send(to_, held_.data(), std::min(most, held_.size()), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put > 0) held_.erase(0, static_cast<std::size_t>(put));
    return put > 0;
  }
  std::string& held() { return held_; }

 private:
  int from_;
  int to_;
  std::string held_;
  bool has_ended_ = false;
};

// A connection from one rank to the next, with the fuzzer in the middle.
struct Wire {
  std::array<TcpSocket, 2> near = make_pair();  // the first belongs to the rank
  std::array<TcpSocket, 2> far = make_pair();   // the first belongs to the next rank
  Direction forth{near[1].fd(), far[1].fd()};
  Direction back{far[1].fd(), near[1].fd()};

  void cut() {
    near[1].close();
    far[1].close();
  }
};

class World {
 public:
  explicit World(std::size_t ranks) : ranks_(ranks), tasks_(ranks) {
    for (std::size_t i = 0; i < 2 * ranks; ++i) wires_.push_back(std::make_unique<Wire>());
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      Links links;
      const std::size_t before = (rank + ranks - 1) % ranks;
      links.before = {"rank " + std::to_string(before), std::move(data(before).far[0]),
                      std::move(control(before).far[0])};
      links.next = {"rank " + std::to_string((rank + 1) % ranks), std::move(data(rank).near[0]),
                    std::move(control(rank).near[0])};
      RingOptions options{.rank = rank, .world_size = ranks};
      engines_.push_back(std::make_unique<RingEngine>(options, std::move(links)));
    }
  }

  void play(Input& input) {
    while (!input.empty()) act(input);
    finish();
  }

 private:
  Wire& data(std::size_t rank) { return *wires_[2 * rank]; }
  Wire& control(std::size_t rank) { return *wires_[2 * rank + 1]; }

  void act(Input& input) {
    const std::uint8_t what = input.byte();
    const std::size_t which = what / 8;
    switch (what % 8) {
      case 0:
      case 1: carry(which, input); break;
      case 2:
      case 3: work(which % ranks_); break;
      case 4: submit(which, input); break;
      case 5: now_ += std::chrono::milliseconds(1 << (which % 16)); break;
      case 6: tamper(which, input); break;
      default: end(which, input); break;
    }
  }

  Direction& direction(std::size_t which) {
    Wire& wire = *wires_[which % wires_.size()];
    // Data flows in one direction only.
    const bool back = which % 2 == 1 && which / wires_.size() % 2 == 1;
    return back ? wire.back : wire.forth;
  }

  void carry(std::size_t which, Input& input) {
    constexpr std::array<std::size_t, 8> kMost{1, 3, 31, 32, 40, 256, 1500, 1 << 16};
    direction(which).take();
    direction(which).give(kMost[input.byte() % kMost.size()]);
  }

  // Submits the same operation on every rank, or one on a single rank.
  void submit(std::size_t which, Input& input) {
    const std::uint8_t how = input.byte();
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if ((how < 32 && how % ranks_ != rank) || engines_[rank] == nullptr) continue;
      tasks_[rank].emplace_back(fuzz::kWorks[which % fuzz::kWorks.size()], rank, ranks_);
      RingRequest request = tasks_[rank].back().request();
      demand(check(request, rank, ranks_).ok(), "the ring refuses the request");
      engines_[rank]->submit(
          std::make_shared<RingOperation>(std::move(request), tasks_[rank].size() - 1), now_);
      work(rank);
    }
    is_whole_ = is_whole_ && how >= 32;
  }

  void tamper(std::size_t which, Input& input) {
    std::string& held = direction(which).held();
    direction(which).take();
    const std::uint8_t at = input.byte();
    const std::uint8_t how = input.byte();
    is_honest_ = false;
    if (how < 192 && !held.empty()) {
      held[at % held.size()] = static_cast<char>(input.byte());
    } else {  // a 32-bit word, as lengths and kinds are
      const std::uint32_t word = how % 2 == 0 ? how / 2 % 8 : input.byte() << (how % 24);
      held.insert(at % (held.size() + 1), reinterpret_cast<const char*>(&word), sizeof word);
    }
  }

  void end(std::size_t which, Input& input) {
    const std::uint8_t how = input.byte();
    is_whole_ = false;
    if (how % 2 == 0) {
      wires_[which % wires_.size()]->cut();
    } else if (std::unique_ptr<RingEngine>& engine = engines_[which % ranks_]) {
      engine->leave("the input says so");
      look_at_ended(which % ranks_);
      engine.reset();
    }
  }

  void work(std::size_t rank) {
    if (engines_[rank] == nullptr) return;
    std::array<pollfd, 4> interests = engines_[rank]->interests();
    poll(interests.data(), interests.size(), 0);
    engines_[rank]->work([this] { return now_; }, interests);
    look_at_ended(rank);
  }

  void look_at_ended(std::size_t rank) {
    for (EndedOperation<RingOperation>& ended : engines_[rank]->take_ended()) {
      const Task& task = tasks_[rank].at(ended.operation->number());
      if (!ended.result.ok()) {
        for (const char byte : ended.result.error().message) {
          demand(byte >= ' ' && byte <= '~', "an error with terminal control characters");
        }
      } else if (is_honest_) {
        demand(task.is_right(), "a wrong result");
      }
      ended.operation->finish(std::move(ended.result));
    }
  }

  // Carries data until nothing moves any more. Data that a rank has received but not read yet moves
  // in the next round.
  void finish() {
    for (int round = 0, still = 0; still < 3 && round < 1000; ++round) {
      bool moves = false;
      for (const auto& wire : wires_) {
        for (Direction* direction : {&wire->forth, &wire->back}) {
          direction->take();
          moves = direction->give(1 << 16) || moves;
        }
      }
      for (std::size_t rank = 0; rank < ranks_; ++rank) work(rank);
      still = moves ? 0 : still + 1;
    }
    for (const auto& engine : engines_) {
      if (engine == nullptr || engine->failure()) return;  // time may have run out
    }
    if (!is_whole_ || !is_honest_) return;
    for (const auto& engine : engines_)
      demand(engine->pending() == 0, "an operation that never ends");
  }

  const std::size_t ranks_;
  SteadyTime now_{std::chrono::seconds(1000)};
  std::vector<std::deque<Task>> tasks_;  // the engines use their memory
  std::vector<std::unique_ptr<Wire>> wires_;
  std::vector<std::unique_ptr<RingEngine>> engines_;
  bool is_honest_ = true;  // no byte was changed
  bool is_whole_ = true;   // nothing was cut off, and all ranks submitted the same operations
};

// A stranger's first bytes: accepted only if they are exactly the expected ones.
void greet(const std::uint8_t* data, std::size_t size) {
  Hello said;
  if (size < sizeof said) return;
  std::memcpy(&said, data, sizeof said);
  const Hello expected{.token = 0x1122334455667788, .from = 1, .to = 2, .world_size = 4};
  const std::optional<Purpose> purpose = purpose_of(said, expected);
  if (!purpose) return;
  Hello only = expected;
  only.purpose = *purpose;
  demand(std::memcmp(&only, data, sizeof only) == 0, "a stranger is accepted");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  greet(data, size);
  Input input(data, size);
  World world(2 + input.byte() % 2);
  world.play(input);
  return 0;
}
