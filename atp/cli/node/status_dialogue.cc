#include "atp/cli/node/status_dialogue.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "atp/cli/node/status_table.h"
#include "atp/config/text/plain_text.h"

namespace atp {
namespace {

using nlohmann::ordered_json;

// Deeper than any status, and shallow enough for code that reads, copies and writes recursively.
constexpr int kMaxDepth = 16;

struct TooDeep {};

Error unreadable(const std::string& address) {
  return {fmt::format(
      "the answer from {} cannot be read: it ended early, or comes from another version of atp",
      address)};
}

Error not_a_node(const std::string& address) {
  return {fmt::format("the process listening on {} is not an atp switch or server", address)};
}

Error other_version(const std::string& address, const std::string& reply,
                    std::string_view expected = kStatusLine) {
  const std::string line = made_plain(reply.substr(0, std::min<std::size_t>(reply.find('\n'), 40)));
  return {fmt::format(
      "{} uses another version of the status format: found \"{}\", expected \"{}\"; use the atp of "
      "that host",
      address, line, expected.substr(0, expected.size() - 1))};
}

ordered_json parse(std::string_view document) {
  const auto check_depth = [](int depth, ordered_json::parse_event_t, ordered_json&) {
    if (depth > kMaxDepth) throw TooDeep{};
    return true;
  };
  return ordered_json::parse(document, check_depth);
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

Result<std::string> status_answer(const std::string& address, const std::string& reply, bool json) {
  if (!reply.starts_with(kStatusGreeting)) return not_a_node(address);
  if (!reply.starts_with(kStatusLine)) return other_version(address, reply);
  try {
    const ordered_json status = parse(std::string_view(reply).substr(kStatusLine.size()));
    // All but ASCII is escaped: text from the network must not control the terminal.
    constexpr bool kAsciiOnly = true;
    return json ? status.dump(2, ' ', kAsciiOnly) + "\n" : status_table(status);
  } catch (const nlohmann::json::exception&) {
    return unreadable(address);
  } catch (const TooDeep&) {
    return unreadable(address);
  }
}

Result<DrainProgress> drain_progress(const std::string& address, const std::string& reply) {
  const bool is_status = reply.starts_with(kStatusGreeting);
  const std::string_view expected = is_status ? kStatusLine : kDrainLine;
  if (!is_status && !reply.starts_with(kDrainGreeting)) return not_a_node(address);
  if (!reply.starts_with(expected)) return other_version(address, reply, expected);
  try {
    const ordered_json status = parse(std::string_view(reply).substr(expected.size()));
    if (const auto refused = status.find("refused"); refused != status.end()) {
      return Error{fmt::format("{} does not drain: {}", address,
                               made_plain(refused->get<std::string>().substr(0, 400)))};
    }
    return DrainProgress{.role = made_plain(status.at("role").get<std::string>()),
                         .draining = status.at("draining").get<bool>(),
                         .jobs = jobs_in(status)};
  } catch (const nlohmann::json::exception&) {
    return unreadable(address);
  } catch (const TooDeep&) {
    return unreadable(address);
  }
}

}  // namespace atp
