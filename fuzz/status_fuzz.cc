#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "atp/cli/status/status_dialogue.h"
#include "atp/config/text/plain_text.h"

// The dialogue of `atp status`. Whatever a node is sent, and in whatever pieces, it classifies it
// the same way as a request or not. Whatever answers, the client ends with a text without terminal
// control characters, or with an error that names the address; and what `atp view` reads in it is
// bounded and can be shown.

namespace {

using atp::StatusRequest;
using Kind = StatusRequest::Kind;

[[noreturn]] void fail(const char* what, const std::string& text) {
  std::fprintf(stderr, "%s:\n%s\n", what, text.c_str());
  std::abort();
}

Kind taken_in_pieces(std::string_view text, std::size_t piece) {
  StatusRequest request;
  Kind kind = Kind::kIncomplete;
  while (!text.empty() && kind == Kind::kIncomplete) {
    const std::size_t length = std::min(piece, text.size());
    kind = request.take(text.substr(0, length));
    text.remove_prefix(length);
  }
  return kind;
}

// A line that ends beyond the maximum length is too long only for a reader that has seen that many
// bytes without its end.
void check_request(std::string_view text) {
  text = text.substr(0, StatusRequest::kMaxBytes);
  const Kind kind = taken_in_pieces(text, text.size());
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}}) {
    if (taken_in_pieces(text, piece) != kind)
      fail("read in pieces, the request differs", std::string(text));
  }
  if (kind == Kind::kStatus && !text.starts_with(atp::kStatusLine)) {
    fail("a request of another version", std::string(text));
  }
  if (kind == Kind::kDrain && !text.starts_with(atp::kDrainLine)) {
    fail("a drain request of another version", std::string(text));
  }
}

void check_reply(const std::string& reply, bool json) {
  const atp::Result<std::string> answer = atp::status_answer("address", reply, json);
  const std::string& text = answer ? answer.value() : answer.error().message;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (!atp::is_plain(std::string_view(text).substr(begin, end - begin))) {
      fail("the text has terminal control characters", text);
    }
    begin = end + 1;
  }
  if (!answer && text.find("address") == std::string::npos)
    fail("an error that does not name the address", text);
}

void check_status(const std::string& reply) {
  const atp::Result<atp::NodeStatus> read = atp::read_node_status("address", reply);
  const auto check_word = [](const std::string& word) {
    if (!atp::is_plain(word)) fail("a word has control characters", word);
  };
  if (!read) return check_word(read.error().message);
  const atp::NodeStatus& status = read.value();
  for (const std::string* word : {&status.role, &status.listen, &status.version}) check_word(*word);
  for (const auto& [name, value] : status.counters) check_word(name);
  for (const atp::FailedJob& job : status.failures) check_word(job.why);
  const auto check_rank = [&](std::uint64_t rank) {
    if (rank >= atp::kMaxRanks) fail("no rank is so high", reply);
  };
  for (const atp::JobStatus& job : status.jobs) {
    check_word(job.parent);
    for (const atp::RankDelay& delay : job.lateness) check_rank(delay.rank);
    if (!job.stuck) continue;
    for (const auto& [rank, host] : job.stuck->ranks) {
      check_rank(rank);
      check_word(host);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check_request(text);
  for (const bool json : {false, true}) {
    check_reply(text, json);
    check_reply(std::string(atp::kStatusLine) + text, json);
  }
  check_status(text);
  check_status(std::string(atp::kDrainLine) + text);
  check_status(std::string(atp::kStatusLine) + text);
  return 0;
}
