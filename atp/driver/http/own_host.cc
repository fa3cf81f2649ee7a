#include "atp/driver/http/own_host.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace atp {
namespace {

bool is_port(std::string_view text) {
  return text.empty() || (text[0] == ':' && text.find_first_not_of("0123456789", 1) == text.npos);
}

bool is_address(int family, const std::string& host) {
  in6_addr bytes{};
  if (host.find('\0') != std::string::npos) return false;  // there inet_pton() would stop
  return inet_pton(family, host.c_str(), &bytes) == 1;
}

std::string in_small_letters(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return text;
}

}  // namespace

bool is_own_host(const std::string& header, const std::vector<std::string>& names) {
  // "[::1]:80" or "host:80"; only IPv6 addresses have brackets.
  const bool brackets = header.starts_with('[');
  const std::size_t end = header.find(brackets ? ']' : ':');
  if (brackets && end == header.npos) return false;
  const std::string host = in_small_letters(header.substr(brackets, end - brackets));
  const std::string after = end == header.npos ? "" : header.substr(end + brackets);
  if (host.empty() || !is_port(after)) return false;
  if (brackets) return is_address(AF_INET6, host);
  return host == "localhost" || is_address(AF_INET, host) ||
         std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return in_small_letters(name) == host; });
}

std::vector<std::string> own_names(std::vector<std::string> names, const std::string& listen) {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) == 0) names.emplace_back(name.data());
  names.push_back(listen.substr(0, listen.rfind(':')));
  return names;
}

}  // namespace atp
