#pragma once

namespace atp {

// The whole program `atp`: parses the arguments, runs the command, returns the exit code.
int run_program(int argc, char** argv);

}  // namespace atp
