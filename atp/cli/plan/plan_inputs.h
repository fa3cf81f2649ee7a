#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "atp/cli/command/command.h"
#include "atp/planner/planner.h"

// The flags that `atp plan best`, `explain` and `sweep` share.

namespace atp {

struct PlanInputs {
  std::string cluster_file;
  std::string model_file;
  std::uint32_t ranks = 0;  // 0: all devices of the cluster
  std::string hosts;        // empty: all
  std::uint32_t ranks_per_host = 0;
  std::uint32_t batch = 4;
  std::uint32_t sequence = 2048;
  // The model if there is no file. A `hidden` of 0 means that there is one.
  std::uint32_t hidden = 0;
  std::uint32_t layers = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t ffn = 0;
  bool gated = false;
  bool full_attention = false;
  std::uint32_t element_bytes = 0;  // 0: from the file

  std::string mode = "linkload";
  bool literal = false;
  bool uncorrected = false;
  std::vector<std::string> collectives;  // empty: all
  std::string volume;                    // empty: the mode's default
  bool fused = false;
  bool whole_logits = false;
  bool sequence_parallel = false;
  bool by_heads = false;
  bool count_norms = false;
  std::uint32_t chunks = 1;
  std::uint32_t micro_batch = 0;  // 0: the whole batch
  std::string recompute = "none";
  double device_memory_gb = 0;
  double device_tflops = 0;
  bool beyond_runtime = false;
  bool attention_scores = false;
};

void add_plan_inputs(const Command& command, PlanInputs& inputs);

// Reads the files. Throws CommandError with code 2 on any error in them or in the flags.
planner::Request read_request(const PlanInputs& inputs);

// Parses "4,2", "4x2" or "(4,2)".
planner::Mesh parse_mesh(const std::string& text);

}  // namespace atp
