#pragma once

#include <string>
#include <string_view>

#include "atp/base/result.h"
#include "atp/config/text/file.h"
#include "atp/planner/model.h"

// A model's `config.json` as Hugging Face writes it. Most of its keys do not affect communication,
// so unknown keys are ignored, unlike in a cluster file. The keys that are read:
//
//   model_type "gpt2"   n_embd, n_layer, n_head; n_inner (4 n_embd if absent or null)
//   model_type "llama"  hidden_size, intermediate_size, num_hidden_layers, num_attention_heads;
//                       num_key_value_heads and head_dim if present
//   both                vocab_size, tie_word_embeddings (if absent true for gpt2, false for llama),
//                       and torch_dtype or dtype: bytes per element (2 if absent)
//
// Any other model_type is refused, because its layers may have to be split differently.

namespace atp {

struct Model {
  planner::Transformer transformer;
  Place heads;  // where the file has the number of heads, which d1 must divide
};

// `file` is used only in messages.
Result<Model> parse_model(std::string_view text, const std::string& file);
Result<Model> read_model(const std::string& path);

}  // namespace atp
