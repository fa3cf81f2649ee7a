#pragma once

#include <string>

#include "atp/cli/command/command_text.h"

namespace atp {

// The manual page of one command, in troff's man macros: the same words as its --help.
std::string man_page(const CommandText& command, const std::string& version);

// "atp-plan-best": of "atp plan best", what `man` is asked for.
std::string man_page_name(const CommandText& command);

}  // namespace atp
