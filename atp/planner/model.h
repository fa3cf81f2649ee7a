#pragma once

#include <cstdint>
#include <string>

#include "atp/base/result.h"

// The planner's view of a transformer: the widths of its matrices. All layers are identical.

namespace atp::planner {

struct Transformer {
  std::string name;
  std::uint32_t hidden = 0;             // h
  std::uint32_t layers = 0;             // L
  std::uint32_t heads = 0;              // query heads
  std::uint32_t kv_heads = 0;           // 0: as many as heads; fewer with grouped queries
  std::uint32_t head_width = 0;         // 0: hidden / heads
  std::uint32_t ffn = 0;                // width of the feed-forward block; 0: 4 * hidden
  bool gated = false;                   // two first matrices (as in SwiGLU) instead of one
  std::uint32_t vocabulary = 0;         // 0: embedding and head are not counted
  std::uint32_t positions = 0;          // in a table of positions; 0: there is none
  bool attention_biases = false;        // of the attention's matrices
  bool ffn_biases = false;              // of the feed-forward block's matrices
  bool tied_head = true;                // the LM head is the embedding, not a separate matrix
  std::uint32_t bytes_per_element = 2;  // of activations and weights
  bool causal = true;                   // a token attends only to itself and those before it
  // Statistics per token that a norm reduces: 2 for LayerNorm, 1 for RMSNorm.
  std::uint32_t norm_statistics = 2;

  bool operator==(const Transformer&) const = default;

  std::uint64_t q_width() const;    // heads * head_width
  std::uint64_t kv_width() const;   // kv_heads * head_width, for k and v each
  std::uint64_t ffn_width() const;  // per first matrix
  std::uint32_t first_matrices() const { return gated ? 2 : 1; }
};

struct Workload {
  std::uint32_t batch = 1;     // sequences
  std::uint32_t sequence = 1;  // tokens per sequence

  std::uint64_t tokens() const { return std::uint64_t{batch} * sequence; }
  bool operator==(const Workload&) const = default;
};

Status validate(const Transformer& model);
Status validate(const Workload& workload);

// Weights per layer without biases and norms: 12 h^2 for a GPT (paper Table 2 divides by
// 2^20 * 1000).
double layer_parameters(const Transformer& model);

// Floating-point operations per layer, forward and backward, without recomputation:
// 72 b s h^2 (1 + s / 6h) for a GPT (paper Table 2 divides by 2^40).
double layer_flops(const Transformer& model, const Workload& workload);

}  // namespace atp::planner
