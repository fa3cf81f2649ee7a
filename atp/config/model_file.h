#pragma once

#include <string>
#include <string_view>

#include "atp/base/result.h"
#include "atp/config/text/file.h"
#include "atp/planner/model.h"

// A model's `config.json` as Hugging Face writes it. The file has many keys that do not matter for
// communication, so unlike a cluster file it is read for what it must have:
//
//   model_type "gpt2"   n_embd, n_layer, n_head; n_inner (4 n_embd if absent or null)
//   model_type "llama"  hidden_size, intermediate_size, num_hidden_layers, num_attention_heads;
//                       num_key_value_heads and head_dim if present
//   both                vocab_size, tie_word_embeddings (if absent true for gpt2, false for llama),
//                       and torch_dtype or dtype: bytes per element (2 if absent)
//
// Another model_type is refused by name: its layers may be cut in other ways.

namespace atp {

struct Model {
  planner::Transformer transformer;
  Place heads;  // where the file says what d1 must divide
};

// `file` is only named in messages.
Result<Model> parse_model(std::string_view text, const std::string& file);
Result<Model> read_model(const std::string& path);

}  // namespace atp
