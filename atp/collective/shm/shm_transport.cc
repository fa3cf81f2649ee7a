// Decides which thread drives the engine, and passes operations, results and warnings between it
// and the callers.
#include "atp/collective/shm/shm_transport.h"

#include <poll.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "atp/base/interrupt.h"
#include "atp/base/text.h"
#include "atp/collective/base/hosts.h"
#include "atp/collective/base/number_text.h"
#include "atp/collective/waits/wait_notice.h"

namespace atp {
namespace {

using SteadyClock = std::chrono::steady_clock;

// How long an aborting rank waits for its thread, which waits for nobody.
constexpr std::chrono::milliseconds kHaste{500};
constexpr std::chrono::milliseconds kForTheLeader{3'000};
// How often a rank checks whether its leader has met those of other hosts.
constexpr std::chrono::milliseconds kBetweenLooks{2};

// " from rank 2", " to rank 0" or nothing.
std::string root_text(Collective collective, std::uint32_t root) {
  if (!has_root(collective)) return "";
  const bool is_source = collective == Collective::kBroadcast || collective == Collective::kScatter;
  return (is_source ? " from rank " : " to rank ") + std::to_string(root);
}

// "all_reduce #3 (1,000 values), the sum of 1,000 float32 values in blocks of int32"; "broadcast #3
// (1,000 values), of int64 from rank 2"
std::string describe(const HostOperationHeader& header, std::string (*type_name)(std::uint8_t)) {
  const auto collective = static_cast<Collective>(header.collective);
  const auto kind = static_cast<ElementKind>(header.element);
  const bool moves = !adds(collective);
  const std::uint64_t values = moves ? header.values / bytes_of(kind) : header.values;
  const std::string_view unit = moves ? unit_of(kind) : unit_of(ElementKind::kFloat32);
  std::string text =
      operation_text(to_string(collective), header.number, values, header.tag, unit) + ", ";
  if (moves) {
    text += "of ";
    text += type_name != nullptr ? type_name(header.element_type) : std::string(to_string(kind));
  } else if (kind != ElementKind::kByte) {
    text += "the " + std::string(to_string(static_cast<ElementReduction>(header.reduction))) +
            " of " + with_commas(values) + " " + std::string(to_string(kind)) + " values";
  } else {
    const auto format =
        header.small != 0 ? NumberFormat::kExact : static_cast<NumberFormat>(header.format);
    text += operation_kind_text(values, {static_cast<DataType>(header.type),
                                         static_cast<Reduction>(header.reduction), format});
  }
  return text + root_text(collective, header.root);
}

HostEngineOptions engine_options(const CommunicatorOptions& options) {
  HostEngineOptions engine{.rank = options.rank,
                           .operation_timeout = options.operation_timeout,
                           .describe = [type_name = options.type_name](const auto& header) {
                             return describe(header, type_name);
                           }};
  if (!sums_on_hosts(options)) return engine;
  engine.world_size = options.world_size;
  engine.names = Hosts(options.host_of).ranks_on(options.host_of[options.rank]);
  const auto own = std::find(engine.names.begin(), engine.names.end(), options.rank);
  engine.rank = static_cast<std::size_t>(own - engine.names.begin());
  return engine;
}

// For whom a rank waits while its leader meets those of the other hosts.
std::string meeting_text(const std::string& leader, const CommunicatorOptions& options) {
  RankSet others;
  for (const Rank other : Hosts(options.host_of).leaders()) others.insert(other);
  others.erase(Hosts(options.host_of).ranks_on(options.host_of[options.rank]).front());
  return "waiting for " + seconds_text(LateRanks::kToTell) + ": " + leader +
         ", the leader of this host, has not met those of the others yet: " + ranks_text(others);
}

HostOperation host_operation(PendingOperation& operation, std::size_t ranks) {
  return {.number = operation.name().number,
          .request = &operation.request(),
          .kind = operation.kind(),
          .small = operation.is_small(ranks),
          .layout = &operation.layout()};
}

}  // namespace

ShmTransport::ShmTransport(const CommunicatorOptions& options, HostPlace place,
                           std::unique_ptr<Waker> waker)
    : TransportWithThread(std::move(waker)),
      options_(options),
      engine_(std::move(place), engine_options(options)) {
  thread_.record_to(options_.recorded);
}

Result<std::shared_ptr<ShmTransport>> ShmTransport::open(const CommunicatorOptions& options,
                                                         HostPlace place) {
  Result<std::unique_ptr<Waker>> waker = Waker::create();
  if (!waker) {
    // Otherwise the others would take its process for dead.
    HostEngine(std::move(place), engine_options(options)).leave(waker.error().message);
    return waker.error();
  }
  auto transport =
      std::make_shared<ShmTransport>(options, std::move(place), std::move(waker).value());
  const Status started = transport->thread_.start("atp-host", [transport] { transport->run(); });
  if (started) return transport;
  transport->engine_.leave(started.error().message);
  return started.error();
}

void ShmTransport::lead(std::unique_ptr<HostUplink> uplink) {
  const std::lock_guard driving(driving_);
  uplink_ = std::move(uplink);
  engine_.send_through(*uplink_);
  engine_.say(HostBoard::Verdict::kSend);
}

void ShmTransport::say_without_memory() {
  const std::lock_guard driving(driving_);
  engine_.say(HostBoard::Verdict::kWithoutMemory);
}

void ShmTransport::give_up_rendezvous(const std::string& why) {
  const std::lock_guard driving(driving_);
  engine_.give_up(why);
}

// Only the leader can say which rank it waits for, so this waits longer than the leader itself.
Result<bool> ShmTransport::hear_of_leaders() {
  const SteadyClock::time_point until = *options_.join_until + kForTheLeader;
  WaitNotice notice([this](const std::string& text) { options_.warn(text); });
  for (;;) {
    notice.look([this] { return meeting_text(engine_.leader_text(), options_); });
    const auto interruption = why_interrupted(options_.interruption);  // may take other locks
    {
      const std::lock_guard driving(driving_);
      engine_.look_for_failure();
      const HostBoard::Verdict verdict = engine_.verdict();
      if (verdict != HostBoard::Verdict::kNone) return verdict == HostBoard::Verdict::kSend;
      if (engine_.failure()) return Error{*engine_.failure()};
      if (interruption) engine_.give_up(*interruption);
      if (SteadyClock::now() >= until)
        engine_.give_up(engine_.leader_text() + " makes no progress");
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

std::optional<std::string> ShmTransport::submit(std::shared_ptr<PendingOperation> operation) {
  const bool is_helped = operation->request().here && !on_own_thread();
  return thread_.submit(std::move(operation), !is_helped);
}

void ShmTransport::help(PendingOperation& operation) {
  if (on_own_thread()) return;
  const auto self = shared_from_this();  // a callback may destroy the communicator
  std::unique_lock driving(driving_, std::try_to_lock);
  if (driving) {
    std::optional<Thread::Role> role(std::in_place, thread_);
    round();
    auto check_at = SteadyClock::now() + kBetweenInterruptChecks;
    while (!operation.done()) {
      engine_.wait();
      round();
      if (SteadyClock::now() < check_at) continue;
      check_at = SteadyClock::now() + kBetweenInterruptChecks;
      // The check may run a handler that takes other locks, or ends this transport.
      driving.unlock();
      role.reset();
      if (interrupted() || !driving.try_lock()) break;
      role.emplace(thread_);
    }
    if (driving && !is_busy()) return;
    if (driving) driving.unlock();
  }
  thread_.waker().wake();
}

void ShmTransport::run() {
  while (!thread_.waker().stopped()) {
    {
      const std::lock_guard driving(driving_);
      round();
      while (is_busy()) {
        engine_.wait();
        round();
      }
    }
    pollfd waited{thread_.waker().fd(), POLLIN, 0};
    poll(&waited, 1, -1);
    thread_.waker().drain();
  }
}

void ShmTransport::round() {
  bool more = true;
  while (more) {
    auto commands = thread_.take();
    const SteadyClock::time_point now = clock_.now();
    const auto guarded = [this](const auto& step) {
      thread_.guarded("rank " + std::to_string(options_.rank), step,
                      [this](const std::string& why) { engine_.give_up(why); });
    };
    for (auto& operation : commands.submitted) {
      guarded([&] {
        pending_.push_back(operation);
        engine_.submit(host_operation(*operation, options_.world_size), now);
      });
      const bool is_lost = pending_.empty() || pending_.back() != operation;
      if (is_lost) operation->finish(Error{operation->text() + ": " + *engine_.failure()});
    }
    if (commands.leave) {
      engine_.leave(*commands.leave);
      if (uplink_ != nullptr && *commands.leave != kShutDown) uplink_->give_up(*commands.leave);
      left_ = true;
    }
    guarded([&] { engine_.work([this] { return clock_.now(); }); });
    record_waits();
    while (const auto line = engine_.take_line()) thread_.tell(*line, options_.on_warning);
    auto ended = take_ended();
    // A callback may submit the next operation.
    more =
        thread_.publish({.pending = pending_.size(),
                         .left = left_,
                         .failure = engine_.failure(),
                         .failure_kind = engine_.failure_kind(),
                         .report = {engine_.counters(), engine_waits(now), engine_.late().waits()}},
                        std::move(ended));
  }
}

// The engine's failure does not say whom it was waiting for last.
void ShmTransport::record_waits() {
  if (!engine_.failure() || !engine_.late().ranks().empty()) waited_for_ = engine_.late().ranks();
  if (left_ || !engine_.failure() || waited_for_.empty() || !options_.recorded) return;
  std::vector<std::size_t> ranks;
  waited_for_.for_each([&](Rank rank) { ranks.push_back(rank); });
  options_.recorded->failed(*engine_.failure(), ranks);
}

std::vector<EndedOperation<PendingOperation>> ShmTransport::take_ended() {
  std::vector<EndedOperation<PendingOperation>> ended;
  for (std::size_t left = engine_.take_completed(); left > 0; --left) {
    ended.push_back({std::move(pending_.front()), ok_status()});
    pending_.pop_front();
  }
  if (!engine_.failure()) return ended;
  for (auto& operation : pending_) {
    const std::string text = operation->text() + ": " + *engine_.failure();
    ended.push_back({std::move(operation), Error{text}});
  }
  pending_.clear();
  return ended;
}

Status ShmTransport::shutdown(SteadyClock::time_point until, std::chrono::milliseconds timeout) {
  Status ended = thread_.shutdown(until, timeout, kHaste);
  if (uplink_ == nullptr) return ended;
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(until - SteadyClock::now());
  const Status told = uplink_->shutdown(std::max(left, std::chrono::milliseconds(0)));
  return ended ? told : ended;
}

void ShmTransport::abort(const std::string& why) {
  thread_.close_in_haste(why, kHaste);
  if (uplink_ != nullptr) uplink_->abort(why);
}

std::optional<WaitedForRanks> ShmTransport::engine_waits(SteadyClock::time_point now) const {
  if (pending_.empty()) return std::nullopt;
  return engine_.late().waited_for(now, pending_.front()->text());
}

std::map<Rank, Duration> ShmTransport::waits() const {
  std::map<Rank, Duration> waits = thread_.report().waits;
  if (uplink_ == nullptr) return waits;
  for (const auto& [rank, waited] : uplink_->waits()) waits[rank] += waited;
  return waits;
}

std::optional<WaitedForRanks> ShmTransport::waited_for() const {
  const auto here = thread_.report().waited_for;
  return here || uplink_ == nullptr ? here : uplink_->waited_for();
}

CounterList ShmTransport::counters() const {
  CounterList list;
  thread_.report().counters.for_each([&](std::string_view name, std::uint64_t value) {
    list.emplace_back(std::string(name), value);
  });
  if (uplink_ == nullptr) return list;
  // Add the leader's packet counters; the words that it combined are not operations of the user.
  for (auto& counter : uplink_->counters()) {
    const auto same = [&](const auto& own) { return own.first == counter.first; };
    if (std::none_of(list.begin(), list.end(), same)) list.push_back(std::move(counter));
  }
  return list;
}

}  // namespace atp
