#pragma once

#include "atp/cli/command/command.h"

namespace atp {

void add_view_command(const Command& program);

}  // namespace atp
