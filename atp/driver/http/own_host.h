#pragma once

#include <string>
#include <vector>

namespace atp {

// Whether a request's Host header names this machine in a way that no other site can: an address,
// localhost, or one of `names`. A page of another site whose name suddenly leads here (DNS
// rebinding) sends that name.
bool is_own_host(const std::string& header, const std::vector<std::string>& names);

// The names for is_own_host(): the given ones, that of this machine, and the one in `listen`, which
// is "HOST:PORT".
std::vector<std::string> own_names(std::vector<std::string> names, const std::string& listen);

}  // namespace atp
