#include "atp/cli/status/status_dialogue.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "atp/cli/status/status_json.h"
#include "atp/cli/status/status_table.h"
#include "atp/config/text/plain_text.h"

namespace atp {
namespace {

using nlohmann::ordered_json;

// Deeper than any status, and shallow enough for code that reads, copies and writes recursively.
constexpr int kMaxDepth = 16;

Error unreadable(const std::string& address) {
  return {fmt::format(
      "the answer from {} cannot be read: it ended early, or comes from another version of atp",
      address)};
}

Error not_a_node(const std::string& address) {
  return {fmt::format("the process listening on {} is not an atp switch or server", address)};
}

Error other_version(const std::string& address, const std::string& reply,
                    std::string_view expected) {
  const std::string line = made_plain(reply.substr(0, std::min<std::size_t>(reply.find('\n'), 40)));
  return {fmt::format(
      "{} uses another version of the status format: found \"{}\", expected \"{}\"; use the atp of "
      "that host",
      address, line, expected.substr(0, expected.size() - 1))};
}

// The document of a reply that begins with this line.
Result<ordered_json> document_of(const std::string& address, const std::string& reply,
                                 std::string_view line) {
  if (!reply.starts_with(line)) return other_version(address, reply, line);
  const auto check_depth = [](int depth, ordered_json::parse_event_t, ordered_json&) {
    if (depth > kMaxDepth) throw ordered_json::other_error::create(501, "too deep", nullptr);
    return true;
  };
  try {
    return ordered_json::parse(std::string_view(reply).substr(line.size()), check_depth);
  } catch (const ordered_json::exception&) {
    return unreadable(address);
  }
}

}  // namespace

StatusRequest::Kind StatusRequest::take(std::string_view bytes) {
  line_ += bytes;
  const std::size_t end = line_.find('\n');
  if (end == std::string::npos) {
    return line_.size() >= kMaxBytes ? Kind::kNone : Kind::kIncomplete;
  }
  const std::string_view line = std::string_view(line_).substr(0, end + 1);
  if (line == kStatusLine) return Kind::kStatus;
  if (line == kDrainLine) return Kind::kDrain;
  if (line.starts_with(kStatusGreeting)) return Kind::kOtherVersion;
  return line.starts_with(kDrainGreeting) ? Kind::kOtherDrainVersion : Kind::kNone;
}

Result<NodeStatus> read_node_status(const std::string& address, const std::string& reply) {
  const bool is_status = reply.starts_with(kStatusGreeting);
  if (!is_status && !reply.starts_with(kDrainGreeting)) return not_a_node(address);
  const auto document = document_of(address, reply, is_status ? kStatusLine : kDrainLine);
  if (!document) return document.error();
  try {
    if (const auto why = document.value().find("refused"); why != document.value().end()) {
      return Error{fmt::format("{} does not drain: {}", address,
                               made_plain(why->get<std::string>().substr(0, 400)))};
    }
    NodeStatus status = status_from(document.value());
    if (!is_status && !status.draining) return unreadable(address);
    return status;
  } catch (const ordered_json::exception&) {
    return unreadable(address);
  }
}

Result<std::string> status_answer(const std::string& address, const std::string& reply, bool json) {
  if (!reply.starts_with(kStatusGreeting)) return not_a_node(address);
  if (!json) {
    const Result<NodeStatus> status = read_node_status(address, reply);
    if (!status) return status.error();
    return status_table(status.value());
  }
  const auto document = document_of(address, reply, kStatusLine);
  if (!document) return document.error();
  // All but ASCII is escaped: text from the network must not control the terminal.
  constexpr bool kAsciiOnly = true;
  return document.value().dump(2, ' ', kAsciiOnly) + "\n";
}

}  // namespace atp
