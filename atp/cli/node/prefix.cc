#include "atp/cli/node/prefix.h"

#include <arpa/inet.h>

#include <charconv>
#include <cstring>
#include <string>

#include "atp/cli/command/command.h"

namespace atp {
namespace {

constexpr std::uint8_t kMappedBits = 96;  // of ::ffff:0:0/96, the IPv4-mapped addresses

// Parses an address, with all of its bits as the prefix.
bool parse_host(const std::string& text, Prefix& prefix) {
  std::uint8_t ipv4[4];
  if (inet_pton(AF_INET, text.c_str(), ipv4) == 1) {
    prefix.address = Endpoint::ipv4(ipv4[0], ipv4[1], ipv4[2], ipv4[3], 0).address;
    return true;
  }
  return inet_pton(AF_INET6, text.c_str(), prefix.address.data()) == 1;
}

}  // namespace

Result<Prefix> parse_prefix(std::string_view text) {
  const Error wrong{
      "'" + std::string(text) +
      "' is not a network: expected ADDRESS/BITS, for example 10.0.0.0/8 or fd00::/8"};
  const std::size_t slash = text.find('/');
  Prefix prefix;
  if (!parse_host(std::string(text.substr(0, slash)), prefix)) return wrong;
  const bool is_ipv4 = text.substr(0, slash).find(':') == std::string_view::npos;
  unsigned bits = is_ipv4 ? 32 : 128;
  if (slash != std::string_view::npos) {
    const std::string_view digits = text.substr(slash + 1);
    const unsigned most = bits;
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
    if (problem != std::errc{} || end != digits.data() + digits.size() || bits > most) return wrong;
  }
  prefix.bits = static_cast<std::uint8_t>(bits + (is_ipv4 ? kMappedBits : 0));
  return prefix;
}

std::vector<Prefix> networks_of(const std::string& option, const std::vector<std::string>& texts) {
  std::vector<Prefix> networks;
  for (const std::string& text : texts) {
    const Result<Prefix> prefix = parse_prefix(text);
    if (!prefix) throw CommandError(option + " " + prefix.error().message, kWrongUsage);
    networks.push_back(prefix.value());
  }
  return networks;
}

std::vector<Prefix> loopback_prefixes() {
  return {parse_prefix("127.0.0.0/8").value(), parse_prefix("::1/128").value()};
}

}  // namespace atp
