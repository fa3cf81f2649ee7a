#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atp/base/result.h"

// What this process's ranks did last: their operations and what happened to their groups, in two
// rings of fixed size. Recording copies a few words under a mutex and allocates nothing. The files
// are written elsewhere (record_files.h).

namespace atp {

// The sizes of an operation's tensors, in fixed space: one tensor's dimensions, or the total number
// of values of several.
struct RecordedShape {
  static constexpr std::size_t kMostDimensions = 6;

  static RecordedShape of_values(std::uint64_t count) {
    RecordedShape shape{.tensors = 1, .dimensions = 1};
    shape.sizes[0] = static_cast<std::int64_t>(count);
    return shape;
  }
  // All blocks of bytes together; without blocks there is no tensor.
  template <class Blocks>
  static RecordedShape of_blocks(const Blocks& blocks, std::size_t bytes_per_value) {
    if (blocks.empty()) return {};
    std::size_t bytes = 0;
    for (const auto& block : blocks) bytes += block.size();
    return of_values(bytes / bytes_per_value);
  }

  std::uint32_t tensors = 0;  // 0: there is none
  std::uint32_t dimensions = 0;
  std::array<std::int64_t, kMostDimensions> sizes{};
};

// All texts are literals, as the recorder keeps only views of them.
struct OperationStart {
  std::string_view name = "all_reduce";  // as in messages
  std::string_view path = "";            // that carries it
  std::string_view type = "";            // of its values
  std::uint64_t number = 0;              // in its group; of transfers, among those of this rank
  bool is_transfer = false;              // a send or a receive
  std::int32_t peer = -1;                // of a transfer; -1: any rank, or none
  std::uint32_t tag = 0;                 // the caller's
  std::chrono::milliseconds timeout{0};
  RecordedShape input;
  RecordedShape output;
};

// What happened to a group, besides its operations.
enum class RecordedKind : std::uint8_t {
  kOpened,
  kClosed,
  kLeft,         // this rank left on its own initiative
  kFailure,      // the group's first failure on this rank, and later ones with other texts
  kDetached,     // from a switch
  kReturned,     // to a switch
  kSilent,       // the server does not answer
  kHeard,        // it does again
  kWaiting,      // for ranks
  kWaitingOver,  // these ranks have resumed
  kSlowRank,
  kPeerRefused,
  kLosses,
  kWarning,
};
std::string_view to_string(RecordedKind kind);

// A group as its ranks see it.
struct RecordedGroupInfo {
  std::string name;                // the same on all ranks
  std::string description;         // the caller's
  std::string job;                 // identifies this start of the group; the same on all ranks
  std::size_t rank = 0;            // this rank in the whole job
  std::vector<std::size_t> ranks;  // of the whole job, by rank in the group
};

// A copy of everything, oldest first. Times are those of the steady clock.
struct Recording {
  using Time = std::chrono::steady_clock::time_point;
  enum class State : std::uint8_t { kBegun, kCompleted, kFailed };

  struct Operation {
    std::uint64_t id = 0;  // counts collectives, or transfers, from 0
    std::size_t group = 0;
    OperationStart start;
    State state = State::kBegun;
    Time begun;
    Time ended;
  };
  struct Event {
    std::size_t group = 0;
    RecordedKind kind = RecordedKind::kWarning;
    Time time;
    std::vector<std::size_t> ranks;  // of the whole job
    std::string text;
  };
  struct Group {
    RecordedGroupInfo info;
    Time opened;
    std::optional<Time> closed;
    std::string failure;
  };

  std::vector<Group> groups;
  std::vector<Operation> operations;
  std::vector<Event> events;
  std::uint64_t overwritten_operations = 0;
  std::uint64_t overwritten_events = 0;
};

class FlightRecorder {
 public:
  using Token = std::uint64_t;  // 0: not recorded
  using GroupNumber = std::uint32_t;
  static constexpr std::size_t kEvents = 500;

  // `operations`: how many are kept. 0: nothing is recorded.
  explicit FlightRecorder(std::size_t operations);

  // The process's, which is never destroyed. A forked child starts with an empty one. Its size
  // comes from the environment (record_files.h).
  static FlightRecorder& of_process();

  bool enabled() const { return kept_ > 0; }
  GroupNumber open(RecordedGroupInfo info);
  void describe(GroupNumber group, std::string description);
  void close(GroupNumber group);
  Token begin(GroupNumber group, const OperationStart& start);
  void end(Token token, bool succeeded);
  // `ranks` are those of the whole job. True: the group's first failure.
  bool note(GroupNumber group, RecordedKind kind, std::string_view text,
            const std::vector<std::size_t>& ranks = {});

  Recording read() const;

 private:
  using Time = Recording::Time;
  static constexpr std::size_t kMostRanks = 8;
  static constexpr std::size_t kMostText = 440;
  static constexpr std::size_t kMostGroups = 256;

  struct Operation {
    Token token = 0;
    std::uint64_t id = 0;
    GroupNumber group = 0;
    Recording::State state = Recording::State::kBegun;
    OperationStart start;
    Time begun;
    Time ended;
  };
  struct Event {
    GroupNumber group = 0;
    RecordedKind kind = RecordedKind::kWarning;
    std::uint8_t ranks_named = 0;
    std::uint16_t text_size = 0;
    std::array<std::uint32_t, kMostRanks> ranks{};
    Time time;
    std::array<char, kMostText> text{};
  };
  struct Group {
    GroupNumber number = 0;
    Recording::Group group;
  };

  // With mutex_ held.
  Group* find(GroupNumber number);
  void forget_old_groups();

  const std::size_t kept_;
  mutable std::mutex mutex_;
  std::vector<Operation> operations_;  // a ring, allocated when the first group is opened
  std::vector<Event> events_;          // a ring
  Token next_token_ = 1;
  std::uint64_t next_event_ = 0;
  std::uint64_t next_collective_ = 0;
  std::uint64_t next_transfer_ = 0;
  GroupNumber next_group_ = 1;
  std::deque<Group> groups_;
};

// One group in the process's recorder, shared by everything that carries out its operations.
// A null pointer to it records nothing; its functions do nothing in a forked child.
class RecordedGroup {
 public:
  using Token = FlightRecorder::Token;

  // Starts writing files, if the environment asks for any.
  static std::shared_ptr<RecordedGroup> open(RecordedGroupInfo info);
  // The same for ranks that are connected with each other: `kind` and the token that they share
  // name the group. `names`: what the ranks are called; those without a name have their number.
  static std::shared_ptr<RecordedGroup> open(const std::string& kind, std::uint64_t token,
                                             std::size_t rank, std::size_t world_size,
                                             std::vector<std::size_t> names);
  ~RecordedGroup();
  RecordedGroup(const RecordedGroup&) = delete;
  RecordedGroup& operator=(const RecordedGroup&) = delete;

  // For a description that is known only once the group is made.
  void describe(std::string description) { recorder_.describe(number_, std::move(description)); }
  Token begin(const OperationStart& start) { return recorder_.begin(number_, start); }
  // A failure causes the files to be written.
  void end(Token token, const Status& status);
  // The same when the returned function is called; it then calls `done`, which may be empty.
  static std::function<void(const Status&)> ending(std::shared_ptr<RecordedGroup> group,
                                                   Token token,
                                                   std::function<void(const Status&)> done);
  // True: the first one that failed.
  bool end_failed(Token token, const std::string& why);
  void end_completed(Token token) { recorder_.end(token, true); }
  // The operation was not carried out, for a reason that concerns this rank alone.
  void refused(Token token) { recorder_.end(token, false); }
  // `ranks`: in the group.
  void note(RecordedKind kind, std::string_view text, const std::vector<std::size_t>& ranks = {});
  // Causes the files to be written.
  void failed(std::string_view why, const std::vector<std::size_t>& ranks = {});

 private:
  explicit RecordedGroup(RecordedGroupInfo info);
  std::vector<std::size_t> in_job(const std::vector<std::size_t>& ranks) const;

  FlightRecorder& recorder_;
  const int owner_;  // the process
  const std::vector<std::size_t> ranks_;
  const FlightRecorder::GroupNumber number_;
  std::atomic<bool> has_failed_operations_{false};
};

}  // namespace atp
