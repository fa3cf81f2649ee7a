#include "atp/config/site_words.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace atp {
namespace {

using AddressBytes = std::array<unsigned char, sizeof(in6_addr)>;

bool can_be_a_hosts(const in_addr& address) {
  const in_addr_t number = ntohl(address.s_addr);
  return number != INADDR_ANY && number != INADDR_BROADCAST && !IN_MULTICAST(number);
}

// A link-local address needs a scope, which the protocol's endpoints do not have, and an IPv4
// address in IPv6's clothes would be another text than the address itself.
bool can_be_a_hosts(const in6_addr& address) {
  return !IN6_IS_ADDR_UNSPECIFIED(&address) && !IN6_IS_ADDR_MULTICAST(&address) &&
         !IN6_IS_ADDR_LINKLOCAL(&address) && !IN6_IS_ADDR_V4MAPPED(&address);
}

template <class Address>
bool can_be_a_hosts(const AddressBytes& bytes) {
  Address address{};
  std::memcpy(&address, bytes.data(), sizeof address);
  return can_be_a_hosts(address);
}

}  // namespace

std::string read_name(const YamlValue& value) {
  const std::string expected = "a name of letters, digits, '-', '_' and '.'";
  std::string name = value.text(expected);
  const auto is_wrong = [](char c) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return !is_letter && !(c >= '0' && c <= '9') && c != '-' && c != '_' && c != '.';
  };
  if (name.front() == '.' || std::any_of(name.begin(), name.end(), is_wrong)) {
    value.refuse(expected);
  }
  return name;
}

std::string read_address(const YamlValue& value) {
  const std::string expected = "an IPv4 or IPv6 address, without a port";
  const std::string text = value.text(expected);
  AddressBytes bytes{};
  std::array<char, INET6_ADDRSTRLEN> written{};
  for (const int family : {AF_INET, AF_INET6}) {
    if (inet_pton(family, text.c_str(), bytes.data()) != 1) continue;
    if (!(family == AF_INET ? can_be_a_hosts<in_addr>(bytes) : can_be_a_hosts<in6_addr>(bytes))) {
      value.refuse("an address by which the other hosts reach this one",
                   "not a wildcard, multicast or link-local one, and no IPv4 address as IPv6");
    }
    return inet_ntop(family, bytes.data(), written.data(), written.size());
  }
  value.refuse(expected);
}

void Seen::add(const std::string& word, const Place& place, const char* advice) {
  const auto [first, is_new] = first_.emplace(word, place);
  if (is_new) return;
  throw FileError(place, shown(word) + " is that of " + first->second.key + " (line " +
                             std::to_string(first->second.line) + ") too; " + advice);
}

}  // namespace atp
