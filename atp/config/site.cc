#include "atp/config/site.h"

#include "atp/config/nearest_name.h"

namespace atp {

Result<std::uint32_t> Site::find_host(std::string_view host_name) const {
  std::vector<std::string_view> names;
  for (const SiteHost& host : hosts) {
    if (host.name == host_name) return static_cast<std::uint32_t>(names.size());
    names.push_back(host.name);
  }
  return Error{place.file + " has no host " + shown(host_name) + "; " + hint(host_name, names)};
}

std::string endpoint_text(const std::string& address, std::uint16_t port) {
  const bool is_ipv6 = address.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + address + "]" : address) + ":" + std::to_string(port);
}

}  // namespace atp
