#include "atp/config/site_words.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

namespace atp {

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
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  std::array<char, INET6_ADDRSTRLEN> written{};
  for (const int family : {AF_INET, AF_INET6}) {
    if (inet_pton(family, text.c_str(), bytes.data()) != 1) continue;
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
