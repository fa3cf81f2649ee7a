#pragma once

#include <CLI/CLI.hpp>

// `atp plan`: from a description of the interconnect and the model, the device mesh on which a
// layer communicates least, and why. Nothing runs on the described machine but what measures it.

namespace atp {

void add_plan_command(CLI::App& app);

// Its parts, each in a file of its own.
void add_best_command(CLI::App& plan);
void add_explain_command(CLI::App& plan);
void add_sweep_command(CLI::App& plan);
void add_matrix_command(CLI::App& plan);
void add_import_command(CLI::App& plan);
void add_paper_command(CLI::App& plan);
void add_measuring_commands(CLI::App& plan);

}  // namespace atp
