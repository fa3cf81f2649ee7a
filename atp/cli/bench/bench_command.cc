#include <fmt/core.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "atp/cli/bench/bench.h"
#include "atp/cli/command/command.h"
#include "atp/cli/command/machine.h"
#include "atp/collective/base/number_text.h"
#include "atp/collective/communicator.h"

namespace atp {
namespace {

const std::map<std::string, DataType> kTypes = {{"float32", DataType::kFloat32},
                                                {"bfloat16", DataType::kBFloat16},
                                                {"float16", DataType::kFloat16},
                                                {"int32", DataType::kInt32}};

// The options as text.
struct Words {
  BenchOptions bench;
  std::string type = "float32";
  std::string wire;  // empty: from the environment
  bool exact = false;
};

// The command line takes precedence over the environment.
NumberFormat format_of_job(const Words& words, NumberFormat of_environment) {
  if (words.wire.empty() && !words.exact) return of_environment;
  const Result<NumberFormat> format =
      format_of({.wire = words.wire.empty() ? "int32" : words.wire, .exact = words.exact});
  if (!format) throw CommandError(format.error().message, kWrongUsage);
  return format.value();
}

// The environment's job, with the requested number format and type.
CommunicatorOptions job_of(const Words& words) {
  Result<CommunicatorOptions> read = CommunicatorOptions::from_environment();
  if (!read) throw CommandError(read.error().message, kWrongUsage);
  CommunicatorOptions job = std::move(read).value();
  job.number_format = format_of_job(words, job.number_format);
  const OperationKind kind{kTypes.at(words.type),
                           words.bench.average ? Reduction::kAverage : Reduction::kSum};
  const Status possible = check_kind(kind, job.number_format, std::nullopt, job.world_size);
  if (!possible)
    throw CommandError("--dtype " + words.type + ": " + possible.error().message, kWrongUsage);
  return job;
}

bool run_bench(const Words& words) {
  BenchOptions options = words.bench;
  options.type = kTypes.at(words.type);
  if (options.min_bytes < sizeof(float) || options.min_bytes > options.max_bytes) {
    throw CommandError(
        fmt::format("-b {} -e {}: expected sizes of at least 4 bytes, the smallest first",
                    options.min_bytes, options.max_bytes),
        kWrongUsage);
  }
  if (const std::uint64_t obtainable = obtainable_memory(); options.max_bytes >= obtainable) {
    throw CommandError(fmt::format("-e {} is more than this process can allocate: {} bytes are "
                                   "free, and each rank allocates one tensor of the largest size",
                                   options.max_bytes, obtainable),
                       kWrongUsage);
  }
  const CommunicatorOptions job = job_of(words);
  const Result<std::unique_ptr<Communicator>> connected = Communicator::connect(job);
  if (!connected) throw CommandError(connected.error().message);
  Communicator& communicator = *connected.value();
  const bool right = Bench(communicator, options).run(job);
  const Status left = communicator.shutdown();
  if (!left) throw CommandError(left.error().message);
  return right;
}

constexpr const char* kBenchExamples = R"(Examples:
  atp run -n 4 -- atp bench allreduce
      sum over 4 ranks in shared memory, 4 KiB to 16 MiB
  atp run -n 4 --switch -- atp bench allreduce
      sum through a switch and a server on this machine
  atp run -n 8 -- atp bench allreduce -b 64M -e 64M -n 5 -w 1
      measure one size
  atp run -n 4 -- atp bench allreduce --wire int16 --dtype bfloat16 --digest
      use another type and wire format, and print a digest that is the same in every run
  atp run -n 2 --switch -- atp bench allreduce -b 1K -e 1M -f 2 --bandwidth 10
      show the lower bounds of a 10 Gbit/s network next to the times)";

}  // namespace

void add_bench_command(const Command& program) {
  const Command bench = program.add_command("bench", "Measure collectives and check their results");
  bench.footer(kBenchExamples);
  bench.require_command();
  const Command command = bench.add_command(
      "allreduce", "Time all_reduce over a range of sizes; run it under `atp run`");
  command.footer(kBenchExamples);
  const auto words = std::make_shared<Words>();
  BenchOptions* const options = &words->bench;
  command.add_option("-b,--minbytes", options->min_bytes, "Smallest size in bytes: 512, 4K, 1M")
      .byte_size()
      .type_name("SIZE")
      .show_default();
  command.add_option("-e,--maxbytes", options->max_bytes, "Largest size in bytes")
      .byte_size()
      .type_name("SIZE")
      .show_default();
  command.add_option("-f,--stepfactor", options->step_factor, "Factor from one size to the next")
      .in_range(1, 1 << 20)
      .type_name("N")
      .show_default();
  command.add_option("-n,--iters", options->iterations, "Timed iterations")
      .in_range(1, 1000000)
      .type_name("N")
      .show_default();
  command.add_option("-w,--warmup_iters", options->warmup_iterations, "Warm-up iterations")
      .in_range(0, 1000000)
      .type_name("N")
      .show_default();
  command.add_flag("-a,--average", options->average, "Average instead of sum");
  command.add_option("--dtype", words->type, "float32, bfloat16, float16 or int32")
      .one_of({"float32", "bfloat16", "float16", "int32"})
      .type_name("TYPE")
      .show_default();
  command.add_option("--wire", words->wire, "Type of values on the wire: int32 or int16")
      .one_of({"int32", "int16"})
      .type_name("TYPE");
  command.add_flag("--exact", words->exact, "Compute exact float sums");
  command.add_flag("--digest", options->digest, "Compare a digest of all results across ranks");
  command.add_flag("--counters", options->counters, "Print rank 0's counters at the end");
  command
      .add_option("--bandwidth", options->bandwidth_gbit,
                  "Link bandwidth in Gbit/s; adds the theoretical bounds")
      .positive_number()
      .type_name("GBIT");
  command.callback([words] {
    if (!run_bench(*words)) throw CommandEnd(1);
  });
}

}  // namespace atp
