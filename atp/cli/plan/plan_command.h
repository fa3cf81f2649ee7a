#pragma once

#include "atp/cli/command/command.h"

// The commands of `atp plan`. From a description of the interconnect and the model they find the
// device mesh on which a layer communicates least, and why; from a cluster file, the bounds of
// in-network sums. Only the measuring commands run on the described machines.

namespace atp {

void add_best_command(const Command& plan);
void add_explain_command(const Command& plan);
void add_sweep_command(const Command& plan);
void add_matrix_command(const Command& plan);
void add_aggregation_command(const Command& plan);
void add_python_commands(const Command& plan);

}  // namespace atp
