#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace atp {

// A node's status document as a short table for people; throws nlohmann::json::exception if it is
// none.
std::string status_table(const nlohmann::json& status);

}  // namespace atp
