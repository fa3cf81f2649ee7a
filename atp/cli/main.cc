#include "atp/cli/program.h"

int main(int argc, char** argv) { return atp::run_program(argc, argv); }
