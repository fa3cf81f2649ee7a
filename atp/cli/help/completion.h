#pragma once

#include <string>

#include "atp/cli/command/command_text.h"

namespace atp {

// A bash script that completes commands, options, and the values of options with fixed choices.
// Anything else falls back to file names.
std::string bash_completion(const CommandText& program);

}  // namespace atp
