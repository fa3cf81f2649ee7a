#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

// The head of an HTTP request, as bytes: what a service of a few pages needs of RFC 9112.

namespace atp {

struct HttpRequest {
  std::string path;                 // without the query
  std::optional<std::string> host;  // the header of that name
  bool head_only = false;           // HEAD
};

// A request may have no more bytes; it needs no body.
inline constexpr std::size_t kMostRequestBytes = 16 * 1024;

struct ReadRequest {
  int problem = 0;  // 0: `request` is valid; else the status of the refusal, such as 400
  HttpRequest request = {};
};
// Nothing: the head is not complete. Bytes after the head are ignored.
std::optional<ReadRequest> read_http_request(std::string_view bytes);

// "200 OK".
std::string http_status_text(int status);

}  // namespace atp
