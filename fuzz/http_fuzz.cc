#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "atp/driver/http/http_request.h"
#include "atp/driver/http/own_host.h"

// What a browser, or anybody else, sends to the pages of a switch, a server or `atp view`. In
// whatever pieces it comes, it is read or refused in the same way; what was read is a path, and a
// host counts as this machine only if no other site has its name.

namespace {

[[noreturn]] void fail(const char* what, std::string_view text) {
  std::fprintf(stderr, "%s:\n%.*s\n", what, static_cast<int>(text.size()), text.data());
  std::abort();
}

void check_request(const atp::HttpRequest& request) {
  if (!request.path.starts_with('/') || request.path.find_first_of(" \n?#") != std::string::npos) {
    fail("not a path", request.path);
  }
  if (!request.host) return;
  const std::string& host = *request.host;
  if (host.find('\n') != std::string::npos) fail("a host of several lines", host);
  if (!atp::is_own_host(host, {"rack7"})) return;
  // Beyond the two names, only addresses: letters from g on are in none.
  std::string name = host.substr(0, host.find_first_of(":]"));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  const auto foreign = [](char c) { return (c >= 'g' && c <= 'z') || c == '-' || c == '\0'; };
  if (name != "localhost" && name != "rack7" && std::any_of(name.begin(), name.end(), foreign)) {
    fail("another site's name", host);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto whole = atp::read_http_request(bytes);
  if (!whole && size >= atp::kMostRequestBytes) fail("a request without an end", "");
  if (whole && whole->problem == 0) check_request(whole->request);
  // The first piece after which the head is complete decides.
  std::size_t length = 0;
  while (length < size && !atp::read_http_request(bytes.substr(0, length))) ++length;
  const auto first = atp::read_http_request(bytes.substr(0, length));
  if (first.has_value() != whole.has_value()) fail("read in pieces, it is never complete", bytes);
  if (!whole) return 0;
  if (first->problem != whole->problem || first->request.path != whole->request.path ||
      first->request.host != whole->request.host ||
      first->request.head_only != whole->request.head_only) {
    fail("read in pieces, the request differs", bytes);
  }
  if (atp::http_status_text(whole->problem).empty()) fail("a status without a text", bytes);
  return 0;
}
