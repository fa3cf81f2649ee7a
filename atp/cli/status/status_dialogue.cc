#include "atp/cli/status/status_dialogue.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "atp/cli/status/status_json.h"
#include "atp/cli/status/status_table.h"
#include "atp/config/text/plain_text.h"

namespace atp {
namespace {

using nlohmann::ordered_json;

// Of a stranger's document; no status has as much. Code that reads, copies and writes recursively
// needs a bound on its depth; finding a key takes time by the number of its neighbours, and memory
// is needed for each value.
constexpr std::size_t kMaxDepth = 16;
constexpr std::size_t kMostKeys = 512;  // of one object
constexpr std::size_t kMostValues = 2'000'000;

// Looks for a bound that is exceeded, before any of the document is kept. A callback of parse()
// cannot do that: with one, each object takes time by the number of values before it.
class Bounds : public nlohmann::json_sax<ordered_json> {
 public:
  bool null() override { return add_value(); }
  bool boolean(bool) override { return add_value(); }
  bool number_integer(number_integer_t) override { return add_value(); }
  bool number_unsigned(number_unsigned_t) override { return add_value(); }
  bool number_float(number_float_t, const string_t&) override { return add_value(); }
  bool string(string_t&) override { return add_value(); }
  bool binary(binary_t&) override { return add_value(); }
  bool start_object(std::size_t) override { return begin(); }
  bool start_array(std::size_t) override { return begin(); }
  bool key(string_t&) override { return ++keys_.back() <= kMostKeys; }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool parse_error(std::size_t, const std::string&, const ordered_json::exception&) override {
    return false;
  }

 private:
  bool add_value() { return ++values_ <= kMostValues; }
  bool begin() {
    keys_.push_back(0);
    return add_value() && keys_.size() <= kMaxDepth;
  }
  bool end() {
    keys_.pop_back();
    return true;
  }

  std::vector<std::size_t> keys_;  // so far, of the objects and lists that are open
  std::size_t values_ = 0;
};

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
  const std::string_view text = std::string_view(reply).substr(line.size());
  Bounds bounds;
  try {
    if (!ordered_json::sax_parse(text, &bounds)) return unreadable(address);
    return ordered_json::parse(text);
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
    const auto refused = document.value().find("refused");
    if (!is_status && refused != document.value().end()) {
      return Error{fmt::format("{} does not drain: {}", address,
                               made_plain(refused->get<std::string>().substr(0, 400)))};
    }
    return status_from(document.value());
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
