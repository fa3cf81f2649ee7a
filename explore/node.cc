#include "explore/node.h"

#include <algorithm>

#include "atp/base/check.h"
#include "atp/wire/block_values.h"

namespace atp::explore {
namespace {

// A node that asks to be woken again and again without time passing is broken.
constexpr int kMaxWakes = 16;

void handle(Member& member, Instant now, const Input& input, Outbox& out) {
  Worker& worker = member.worker;
  if (input.cause == Cause::kPacket) {
    worker.handle_packet(now, input.from, input.bytes, member.application, out);
  } else if (input.cause == Cause::kUnreachable) {
    worker.handle_unreachable(now, input.from, member.application, out);
  }
}

template <class SwitchOrServer>
void handle(SwitchOrServer& node, Instant now, const Input& input, Outbox& out) {
  if (input.cause == Cause::kPacket) {
    node.handle_packet(now, input.from, input.to, input.bytes, out);
  } else if (input.cause == Cause::kUnreachable) {
    node.handle_unreachable(now, input.from, out);
  }
}

void wake(Member& member, Instant now, Outbox& out) {
  member.worker.handle_timeout(now, member.application, out);
}

template <class SwitchOrServer>
void wake(SwitchOrServer& node, Instant now, Outbox& out) {
  node.handle_timeout(now, out);
}

void poll(Member& member, Instant now, Outbox& out) {
  std::size_t sent = 0;
  do {
    while (const std::optional<Event> event = member.worker.poll_event()) {
      member.application.handle_event(now, *event, member.worker);
    }
    sent = out.packets().size();
    member.worker.poll_transmit(now, member.application, out);
  } while (out.packets().size() > sent);
}

template <class SwitchOrServer>
void poll(SwitchOrServer&, Instant, Outbox&) {}

Instant timeout_of(const Member& member) { return member.worker.next_timeout(); }

template <class SwitchOrServer>
Instant timeout_of(const SwitchOrServer& node) {
  return node.next_timeout();
}

}  // namespace

Application::Application(const JobData& data, Rank rank)
    : data_(&data), rank_(rank), exponents_(data.plan().operations.size()) {
  for (const std::uint64_t length : data.plan().operations) {
    ATP_CHECK(length <= kBlockValues);
    outputs_.emplace_back(length * bytes_of(data.plan().type));
  }
}

void Application::handle_event(Instant now, const Event& event, Worker& worker) {
  switch (event.kind) {
    case EventKind::kJoined:
      for (OperationId id = 0; id < outputs_.size(); ++id) {
        ATP_CHECK(worker.submit(now, data_->spec(id)) == id);
      }
      return;
    case EventKind::kCompleted: {
      ++completed_;
      const std::span<const std::byte> expected = data_->expected(event.operation);
      if (!std::equal(expected.begin(), expected.end(), outputs_[event.operation].begin())) {
        objection_ = "operation " + std::to_string(event.operation) + " has a wrong result";
      }
      return;
    }
    case EventKind::kFailed:
      objection_ = "the job has failed, with code " +
                   std::to_string(static_cast<int>(event.failure.code)) + " (FailureCode)";
      return;
    default: return;  // news
  }
}

void start(Node& node, Instant now) {
  if (auto* member = std::get_if<Member>(&node)) member->worker.start(now);
}

void run(Node& node, Instant now, const Input& input, Outbox& out) {
  std::visit(
      [&](auto& any) {
        handle(any, now, input, out);
        int wakes = 0;
        do {
          for (; timeout_of(any) <= now; ++wakes) {
            ATP_CHECK(wakes < kMaxWakes);
            wake(any, now, out);
          }
          poll(any, now, out);
        } while (timeout_of(any) <= now);
      },
      node);
}

Instant next_timeout(const Node& node) {
  return std::visit([](const auto& any) { return timeout_of(any); }, node);
}

}  // namespace atp::explore
