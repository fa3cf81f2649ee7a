#pragma once

#include "atp/cli/command/command.h"

namespace atp {

void add_doctor_command(const Command& program);

}  // namespace atp
