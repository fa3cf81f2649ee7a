#pragma once

#include <string>

#include "atp/cli/command/command_text.h"

namespace atp {

// The manual page of one command, in troff's man macros, with the text of its --help.
std::string man_page(const CommandText& command, const std::string& version);

// The name for `man`: "atp-plan-best" for "atp plan best".
std::string man_page_name(const CommandText& command);

}  // namespace atp
