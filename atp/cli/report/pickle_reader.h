#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "atp/base/result.h"

namespace atp {

// Reads what PickleWriter writes, and nothing else: no pickle that would run code, share objects or
// use another protocol. A pair becomes an array.
Result<nlohmann::json> read_pickle(std::string_view bytes);

}  // namespace atp
