#include "atp/cli/node/status_dialogue.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "atp/cli/node/status_table.h"
#include "atp/config/text/plain_text.h"

namespace atp {
namespace {

using nlohmann::ordered_json;

// Deeper than any status is, and no more than what is read, copied and written by recursion may be.
constexpr int kMaxDepth = 16;

struct TooDeep {};

Error unreadable(const std::string& address) {
  return {fmt::format(
      "the answer of {} cannot be read: it ended early, or is of another version of atp", address)};
}

Error other_version(const std::string& address, const std::string& reply) {
  const std::string line = made_plain(reply.substr(0, std::min<std::size_t>(reply.find('\n'), 40)));
  return {fmt::format(
      "{} tells its status in another version: it answered \"{}\", this program knows \"{}\"; use "
      "the atp of that host",
      address, line, kStatusLine.substr(0, kStatusLine.size() - 1))};
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
  if (!line_.starts_with(kStatusGreeting)) return Kind::kNone;
  return line_.substr(0, end + 1) == kStatusLine ? Kind::kStatus : Kind::kOtherVersion;
}

Result<std::string> status_answer(const std::string& address, const std::string& reply, bool json) {
  if (!reply.starts_with(kStatusGreeting)) {
    return Error{fmt::format("what listens at {} is no atp switch or server", address)};
  }
  if (!reply.starts_with(kStatusLine)) return other_version(address, reply);
  try {
    const ordered_json status = parse(std::string_view(reply).substr(kStatusLine.size()));
    // Escaped but for ASCII: what came over the network must not command the terminal.
    constexpr bool kAsciiOnly = true;
    return json ? status.dump(2, ' ', kAsciiOnly) + "\n" : status_table(status);
  } catch (const nlohmann::json::exception&) {
    return unreadable(address);
  } catch (const TooDeep&) {
    return unreadable(address);
  }
}

}  // namespace atp
