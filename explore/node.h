#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "atp/core/dataplane/switch_node.h"
#include "atp/core/outbox.h"
#include "atp/core/server/server.h"
#include "atp/core/worker/worker.h"
#include "explore/plan.h"

// The nodes of a world: the product's own Worker, SwitchNode and Server, with their real
// configuration and times, run by the loop of atp/core/README.md. One call of run() is one turn of
// that loop: a packet, an error, or only the passage of time; then due timers, events, and
// transmissions.

namespace atp::explore {

// The application above a worker: it submits the job's operations when the job begins, owns their
// tensors, and compares the results. It is a value, like the nodes.
class Application : public Tensors {
 public:
  Application(const JobData& data, Rank rank);

  void handle_event(Instant now, const Event& event, Worker& worker);

  std::span<const std::byte> input(OperationId id) override { return data_->input(rank_, id); }
  std::span<std::byte> output(OperationId id) override { return outputs_[id]; }
  const BlockLayout& layout(OperationId id) override { return data_->layout(id); }
  std::span<std::int16_t> exponents(OperationId id) override { return {&exponents_[id], 1}; }

  bool finished() const { return completed_ == outputs_.size(); }
  std::size_t completed() const { return completed_; }
  // The first error; empty if there is none.
  const std::string& objection() const { return objection_; }

  bool operator==(const Application& other) const {
    return data_ == other.data_ && rank_ == other.rank_ && completed_ == other.completed_ &&
           outputs_ == other.outputs_ && exponents_ == other.exponents_ &&
           objection_ == other.objection_;
  }

 private:
  const JobData* data_;
  Rank rank_;
  std::size_t completed_ = 0;
  std::vector<std::vector<std::byte>> outputs_;
  std::vector<std::int16_t> exponents_;  // one per operation: none is longer than a block
  std::string objection_;
};

struct Member {
  Worker worker;
  Application application;
  bool operator==(const Member&) const = default;
};

using Node = std::variant<Member, SwitchNode, Server>;

// Makes the node join, if it is a worker.
void start(Node& node, Instant now);

enum class Cause : std::uint8_t { kTime, kUnreachable, kPacket };

// The input of a turn. `from`: the sender of the packet, or the node that the error is about.
struct Input {
  Cause cause = Cause::kTime;
  Endpoint from;
  std::span<const std::uint8_t> bytes;
  Endpoint to = {};  // the node itself
};

void run(Node& node, Instant now, const Input& input, Outbox& out);
Instant next_timeout(const Node& node);

}  // namespace atp::explore
