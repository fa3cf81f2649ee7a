#include "atp/wire/endpoint.h"

#include <algorithm>

#include "atp/wire/packet.h"

namespace atp {
namespace {

std::string ipv4_text(const Endpoint& e) {
  std::string text;
  for (std::size_t i = 12; i < 16; ++i) {
    if (i > 12) text += '.';
    text += std::to_string(e.address[i]);
  }
  return text;
}

// RFC 5952 without its special cases for embedded IPv4: the longest run of zero groups becomes ::.
std::string ipv6_text(const Endpoint& e) {
  std::array<std::uint16_t, 8> groups{};
  for (std::size_t g = 0; g < 8; ++g) groups[g] = atp_load16(e.address.data() + 2 * g);
  std::size_t best = 8;
  std::size_t best_length = 1;
  for (std::size_t g = 0; g < 8; ++g) {
    std::size_t end = g;
    while (end < 8 && groups[end] == 0) ++end;
    if (end - g > best_length) {
      best = g;
      best_length = end - g;
    }
  }
  std::string text;
  constexpr char kDigits[] = "0123456789abcdef";
  for (std::size_t g = 0; g < 8; ++g) {
    if (g == best) {
      text += "::";
      g += best_length - 1;
      continue;
    }
    if (!text.empty() && text.back() != ':') text += ':';
    bool started = false;
    for (int shift = 12; shift >= 0; shift -= 4) {
      const unsigned digit = (groups[g] >> shift) & 15U;
      started = started || digit != 0 || shift == 0;
      if (started) text += kDigits[digit];
    }
  }
  return text;
}

}  // namespace

std::string to_string(const Endpoint& e) {
  const std::string port = ":" + std::to_string(e.port);
  return e.is_ipv4() ? ipv4_text(e) + port : "[" + ipv6_text(e) + "]" + port;
}

void write_endpoint(std::uint8_t* at, const Endpoint& endpoint) {
  std::copy(endpoint.address.begin(), endpoint.address.end(), at);
  atp_store16(at + 16, endpoint.port);
}

Endpoint read_endpoint(const std::uint8_t* at) {
  Endpoint endpoint;
  std::copy(at, at + 16, endpoint.address.begin());
  endpoint.port = atp_load16(at + 16);
  return endpoint;
}

}  // namespace atp
