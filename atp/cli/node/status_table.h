#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace atp {

// A node's status document as a short table for people. Throws nlohmann::json::exception if the
// document is not a status.
std::string status_table(const nlohmann::json& status);

// The number of jobs in it. A job may have several stream ranges.
std::size_t jobs_in(const nlohmann::json& status);

}  // namespace atp
