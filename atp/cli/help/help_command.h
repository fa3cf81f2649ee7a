#pragma once

#include "atp/cli/command/command.h"

namespace atp {

void add_help_command(const Command& program);
void add_completion_command(const Command& program);

}  // namespace atp
