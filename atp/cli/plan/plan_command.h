#pragma once

#include "atp/cli/command/command.h"

// The commands of `atp plan`: from a description of the interconnect and the model, the device mesh
// on which a layer communicates least, and why; from a cluster file, what sums in the network take.
// Nothing runs on the described machine but what measures it.

namespace atp {

void add_best_command(const Command& plan);
void add_explain_command(const Command& plan);
void add_sweep_command(const Command& plan);
void add_matrix_command(const Command& plan);
void add_aggregation_command(const Command& plan);
void add_import_command(const Command& plan);
void add_measuring_commands(const Command& plan);

}  // namespace atp
