#pragma once

#include "atp/cli/command/command.h"

namespace atp {

void add_report_command(const Command& program);

}  // namespace atp
