#include "atp/driver/http/http_request.h"

#include <algorithm>
#include <cctype>

namespace atp {
namespace {

constexpr int kBadRequest = 400;
constexpr int kTooLarge = 431;
constexpr int kNotImplemented = 501;
constexpr int kOtherVersion = 505;

bool same_word(std::string_view one, std::string_view other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(), [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  });
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// Takes the next line, which ends with a line feed, out of the text; nothing: there is none.
std::optional<std::string_view> take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  if (end == text.npos) return std::nullopt;
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// Takes the text up to the next space out of the line.
std::string_view take_word(std::string_view& line) {
  const std::size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

// "/page?query", or the same with "http://host" before it.
int read_target(std::string_view target, HttpRequest& request) {
  constexpr std::string_view kScheme = "http://";
  if (same_word(target.substr(0, kScheme.size()), kScheme)) {
    target.remove_prefix(kScheme.size());
    const std::size_t end = std::min(target.find_first_of("/?#"), target.size());
    request.host = target.substr(0, end);
    target.remove_prefix(end);
    if (target.empty()) target = "/";
  }
  if (!target.starts_with('/')) return kBadRequest;
  request.path = target.substr(0, target.find_first_of("?#"));
  return 0;
}

int read_first_line(std::string_view line, HttpRequest& request) {
  const std::string_view method = take_word(line);
  const std::string_view target = take_word(line);
  const std::string_view version = line;
  if (method.empty() || target.empty() || !version.starts_with("HTTP/")) return kBadRequest;
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return kOtherVersion;
  request.head_only = method == "HEAD";
  if (method != "GET" && !request.head_only) return kNotImplemented;
  return read_target(target, request);
}

// The address in the first line counts more than the header (RFC 9112 §3.2.2).
int read_headers(std::string_view text, HttpRequest& request) {
  const bool is_named_before = request.host.has_value();
  bool has_host = false;
  while (const auto line = take_line(text)) {
    if (line->empty()) return 0;
    const std::size_t colon = line->find(':');
    const std::string_view name = line->substr(0, std::min(colon, line->size()));
    if (colon == line->npos || name.empty() || trimmed(name) != name) return kBadRequest;
    if (!same_word(name, "host")) continue;
    if (has_host) return kBadRequest;
    has_host = true;
    if (!is_named_before) request.host = trimmed(line->substr(colon + 1));
  }
  return 0;
}

bool ends_with_empty_line(std::string_view text) {
  while (const auto line = take_line(text)) {
    if (line->empty()) return true;
  }
  return false;
}

}  // namespace

std::optional<ReadRequest> read_http_request(std::string_view bytes) {
  // Some clients send an empty line after their last request.
  while (bytes.starts_with('\r') || bytes.starts_with('\n')) bytes.remove_prefix(1);
  if (!ends_with_empty_line(bytes)) {
    if (bytes.size() < kMostRequestBytes) return std::nullopt;
    return ReadRequest{.problem = kTooLarge};
  }
  ReadRequest read;
  read.problem = read_first_line(take_line(bytes).value(), read.request);
  if (read.problem == 0) read.problem = read_headers(bytes, read.request);
  return read;
}

std::string http_status_text(int status) {
  const auto words = [status] {
    switch (status) {
      case 200: return " OK";
      case 400: return " Bad Request";
      case 403: return " Forbidden";
      case 404: return " Not Found";
      case 431: return " Request Header Fields Too Large";
      case 500: return " Internal Server Error";
      case 501: return " Not Implemented";
      case 503: return " Service Unavailable";
      case 505: return " HTTP Version Not Supported";
      default: return "";
    }
  };
  return std::to_string(status) + words();
}

}  // namespace atp
