#include "atp/cli/metrics/own_host.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace atp {
namespace {

// "[::1]:80" and "host:80", without the port and the brackets.
std::string without_port(std::string_view header) {
  if (header.starts_with('[')) return std::string(header.substr(1, header.find(']') - 1));
  return std::string(header.substr(0, header.find(':')));
}

bool is_ip_address(const std::string& host) {
  in6_addr bytes{};
  if (host.find('\0') != std::string::npos) return false;  // there inet_pton() would stop
  return inet_pton(AF_INET, host.c_str(), &bytes) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &bytes) == 1;
}

std::string in_small_letters(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return text;
}

}  // namespace

bool is_own_host(const std::string& header, const std::vector<std::string>& names) {
  const std::string host = in_small_letters(without_port(header));
  if (is_ip_address(host) || host == "localhost") return true;
  return !host.empty() && std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return in_small_letters(name) == host;
  });
}

std::vector<std::string> own_names(std::vector<std::string> names, const std::string& listen) {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) == 0) names.emplace_back(name.data());
  names.push_back(listen.substr(0, listen.rfind(':')));
  return names;
}

}  // namespace atp
