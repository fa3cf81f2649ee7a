#pragma once

#include <string>

#include "atp/cli/command/command_text.h"

namespace atp {

// A script for bash that completes commands, options and the values of options that have a fixed
// few. Anything else is left to bash, which completes names of files.
std::string bash_completion(const CommandText& program);

}  // namespace atp
