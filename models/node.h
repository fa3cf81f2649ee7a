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
#include "models/plan.h"

// The nodes of a world: the very Worker, SwitchNode and Server of the product, with their real
// configuration and times, run by the loop of atp/core/README.md. One call of run() is one turn of
// that loop: a packet, or an error, or nothing but time; then what is due, the events, and what is
// to be sent.

namespace atp::models {

// What runs above a worker: it submits the job's operations when the job begins, owns their
// tensors, and compares the results. A value as well.
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
  // What has gone wrong; empty if nothing has.
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
  std::vector<std::int16_t> exponents_;  // one for each operation: none is longer than a block
  std::string objection_;
};

struct Member {
  Worker worker;
  Application application;
  bool operator==(const Member&) const = default;
};

using Node = std::variant<Member, SwitchNode, Server>;

// Begins to join, if it is a worker.
void start(Node& node, Instant now);

enum class Cause : std::uint8_t { kTime, kUnreachable, kPacket };

// What a turn begins with. `from`: who sent the packet, or whom the error is about.
struct Input {
  Cause cause = Cause::kTime;
  Endpoint from;
  std::span<const std::uint8_t> bytes;
};

void run(Node& node, Instant now, const Input& input, Outbox& out);
Instant next_timeout(const Node& node);

}  // namespace atp::models
