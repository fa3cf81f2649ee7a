#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "atp/collective/peer/engine.h"
#include "fuzz/input.h"
#include "fuzz/peers_tasks.h"
#include "fuzz/peers_wires.h"

// The ranks of a group; the input plays the network between them. It decides how many bytes go
// where and when, which are changed or added, which connection ends, what each rank submits, and
// how time passes. Whatever happens, no rank may access memory that is not its own or no longer
// lent to it, and no text may contain terminal control characters. As long as no byte was changed,
// every completed operation must have the right result; and if nothing was cut off and there was
// time, all of them must complete.

namespace {

using namespace atp;
using fuzz::Direction;
using fuzz::Input;
using fuzz::Task;
using fuzz::Wire;

// As long as less time passes, no rank may be taken for dead.
constexpr std::chrono::seconds kPatience{15};
// Of an input: more would only take longer.
constexpr std::size_t kMostOperations = 48;
constexpr std::size_t kMostBytes = 1 << 20;  // in blocks

void demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

void demand_printable(const std::string& text) {
  for (const char byte : text) {
    demand(byte >= ' ' && byte <= '~', "a text with terminal control characters");
  }
}

// Nobody calls it.
std::shared_ptr<const TcpListener> listener() {
  static const auto only =
      std::make_shared<const TcpListener>(TcpListener::open("127.0.0.1:0").value());
  return only;
}

class World {
 public:
  explicit World(std::size_t ranks) : ranks_(ranks), tasks_(ranks), uncalled_(ranks) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      pollers_.push_back(Poller::create().value());
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      PeerOptions options{.rank = rank, .world_size = ranks, .on_warning = demand_printable};
      engines_.push_back(std::make_unique<PeerEngine>(
          options, listener(), std::vector(ranks, listener()->address()), pollers_[rank]));
      for (std::size_t other = 0; other < rank; ++other) {
        wires_.push_back(std::make_unique<Wire>());
        engines_[other]->connect(rank, std::move(wires_.back()->near[0]));
        engines_[rank]->connect(other, std::move(wires_.back()->far[0]));
      }
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) work(rank);
  }

  void play(Input& input) {
    while (!input.empty()) act(input);
    finish();
  }

 private:
  void act(Input& input) {
    const std::uint8_t what = input.byte();
    const std::size_t which = what / 8;
    switch (what % 8) {
      case 0:
      case 1: carry(which, input); break;
      case 2:
      case 3: work(which % ranks_); break;
      case 4: submit(which, input); break;
      case 5: pass_time(std::chrono::milliseconds(1 << (which % 16))); break;
      case 6:
        is_honest_ = false;
        direction(which).tamper(input);
        break;
      default: end(which, input); break;
    }
  }

  Direction& direction(std::size_t which) {
    Wire& wire = *wires_[which / 2 % wires_.size()];
    return which % 2 == 1 ? wire.back : wire.forth;
  }

  void carry(std::size_t which, Input& input) {
    constexpr std::array<std::size_t, 8> kMost{1, 3, 55, 56, 57, 1500, 1 << 16, 1 << 20};
    direction(which).take();
    direction(which).give(kMost[input.byte() % kMost.size()]);
  }

  void pass_time(std::chrono::milliseconds time) {
    now_ += time;
    is_in_time_ = is_in_time_ && now_ < kStart + kPatience;
  }

  // All ranks are to call the same operation, and do so at once or later; or a rank calls one that
  // is due, or something else instead.
  void submit(std::size_t which, Input& input) {
    const std::uint8_t how = input.byte();
    const std::size_t rank = how % ranks_;
    const std::size_t bytes = fuzz::bytes_of(fuzz::kWorks[which % fuzz::kWorks.size()]);
    if (how >= 64 && works_.size() < kMostOperations && bytes < bytes_left_) {
      bytes_left_ -= bytes;
      for (auto& numbers : uncalled_) numbers.push_back(works_.size());
      works_.push_back(which);
      if (how < 160) return;
      for (std::size_t each = 0; each < ranks_; ++each) call(each, uncalled_[each].size() - 1);
    } else if (!uncalled_[rank].empty()) {
      const std::size_t place = how / 8 % uncalled_[rank].size();
      if (how >= 56) works_of(rank)[uncalled_[rank][place]] = which;
      is_whole_ = is_whole_ && how < 56;
      call(rank, place);
    }
  }
  std::map<std::size_t, std::size_t>& works_of(std::size_t rank) { return own_works_[rank]; }

  void call(std::size_t rank, std::size_t place) {
    const std::size_t number = uncalled_[rank][place];
    uncalled_[rank].erase(uncalled_[rank].begin() + static_cast<std::ptrdiff_t>(place));
    PeerEngine* engine = engines_[rank].get();
    if (engine == nullptr) return;
    const auto own = works_of(rank).find(number);
    const std::size_t work = own == works_of(rank).end() ? works_[number] : own->second;
    const fuzz::Work& kind = fuzz::kWorks[work % fuzz::kWorks.size()];
    if (kind.call == Collective::kSend) engine->skip(number);
    auto task = std::make_unique<Task>(kind, number, rank, ranks_);
    if (!task->concerns_rank()) return;
    CollectiveRequest request = task->request();
    demand(check(request, rank, ranks_).ok(), "the group refuses the request");
    auto operation = std::make_shared<PeerOperation>(std::move(request), number, Wording{});
    tasks_[rank].emplace(operation.get(), std::move(task));
    engine->submit(std::move(operation), now_);
    look_at_ended(rank);
  }

  void end(std::size_t which, Input& input) {
    const std::uint8_t how = input.byte();
    is_whole_ = false;
    if (how % 2 == 0) {
      wires_[which % wires_.size()]->cut();
    } else if (std::unique_ptr<PeerEngine>& engine = engines_[which % ranks_]) {
      if (how % 4 == 1) engine->leave("the input says so");
      if (how % 4 == 1) look_at_ended(which % ranks_);
      engine.reset();
      tasks_[which % ranks_].clear();
    }
  }

  void work(std::size_t rank) {
    PeerEngine* engine = engines_[rank].get();
    if (engine == nullptr) return;
    engine->work([this] { return now_; }, pollers_[rank].wait(0));
    if (const auto line = engine->take_line()) demand_printable(line->text);
    if (const auto waits = engine->waited_for()) demand_printable(waits->operation);
    static_cast<void>(engine->next_timeout());
    look_at_ended(rank);
  }

  // Frees the memory of what has ended: it is no longer the engine's.
  void look_at_ended(std::size_t rank) {
    for (EndedOperation<PeerOperation>& ended : engines_[rank]->take_ended()) {
      const auto found = tasks_[rank].find(ended.operation.get());
      demand(found != tasks_[rank].end(), "an operation that ends twice");
      if (!ended.result.ok()) {
        demand_printable(ended.result.error().message);
      } else if (is_honest_) {
        demand(found->second->is_right(), "a wrong result");
      }
      tasks_[rank].erase(found);
      ended.operation->finish(std::move(ended.result));
    }
  }

  // Carries data until nothing moves any more. Data that a rank has received but not read yet moves
  // in the next round.
  void finish() {
    for (std::size_t rank = 0; rank < ranks_ && is_whole_; ++rank) {
      while (!uncalled_[rank].empty()) call(rank, 0);
    }
    for (int round = 0, still = 0; still < 3 && round < 10'000; ++round) {
      bool moves = false;
      for (const auto& wire : wires_) {
        for (Direction* direction : {&wire->forth, &wire->back}) {
          direction->take();
          moves = direction->give(1 << 20) || moves;
        }
      }
      for (std::size_t rank = 0; rank < ranks_; ++rank) work(rank);
      still = moves ? 0 : still + 1;
    }
    if (!is_whole_ || !is_honest_) return;
    for (const auto& engine : engines_) {
      if (is_in_time_ && engine->failure())
        std::fprintf(stderr, "%s\n", engine->failure()->c_str());
      demand(!is_in_time_ || !engine->failure(), "a failure without a reason");
      demand(engine->failure() || engine->pending() == 0, "an operation that never ends");
    }
  }

  static constexpr SteadyTime kStart{std::chrono::seconds(1000)};
  const std::size_t ranks_;
  SteadyTime now_ = kStart;
  std::size_t bytes_left_ = kMostBytes;
  std::vector<std::size_t> works_;  // of all ranks, by number
  // By rank: what it calls instead, by number.
  std::map<std::size_t, std::map<std::size_t, std::size_t>> own_works_;
  std::vector<std::map<const PeerOperation*, std::unique_ptr<Task>>> tasks_;  // in flight
  std::vector<std::deque<std::size_t>> uncalled_;                             // numbers
  std::vector<std::unique_ptr<Wire>> wires_;
  std::vector<Poller> pollers_;
  std::vector<std::unique_ptr<PeerEngine>> engines_;
  bool is_honest_ = true;   // no byte was changed
  bool is_whole_ = true;    // nothing was cut off, and all ranks call the same operations
  bool is_in_time_ = true;  // nobody had to wait for long
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  World world(2 + input.byte() % 3);
  world.play(input);
  return 0;
}
