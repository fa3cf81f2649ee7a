#pragma once

#include <string>

namespace atp {

// The name of this machine's interface that has the address, "" if none has.
std::string interface_with(const std::string& address);

}  // namespace atp
