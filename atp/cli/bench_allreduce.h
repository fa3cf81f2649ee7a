#pragma once

#include <CLI/CLI.hpp>

// `atp bench allreduce`: how long an all_reduce takes for each of a range of sizes, and whether
// every element of every result is right. Options and columns are those of nccl-tests.

namespace atp {

void add_bench_command(CLI::App& app);

}  // namespace atp
