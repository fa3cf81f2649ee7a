#include "atp/config/model_file.h"

#include <array>
#include <utility>

#include "atp/config/text/file.h"
#include "atp/config/text/json_object.h"
#include "atp/config/text/plain_text.h"
#include "atp/config/text/words.h"

namespace atp {
namespace {

using planner::Transformer;

constexpr std::array<std::string_view, 2> kModelTypes{"gpt2", "llama"};

std::uint32_t read_count(const JsonObject& file, const std::string& key) {
  return static_cast<std::uint32_t>(file.count(key));
}

std::uint32_t read_count_if_present(const JsonObject& file, const std::string& key) {
  return file.has_value(key) ? read_count(file, key) : 0;
}

std::uint32_t read_element_bytes(const JsonObject& file) {
  constexpr std::array<std::pair<std::string_view, std::uint32_t>, 3> kTypes{
      {{"float16", 2}, {"bfloat16", 2}, {"float32", 4}}};
  for (const char* key : {"torch_dtype", "dtype"}) {
    if (!file.has_value(key)) continue;
    const std::string name = file.text(key, "float16, bfloat16 or float32");
    for (const auto& [type, bytes] : kTypes) {
      if (name == type) return bytes;
    }
    refuse(file.place(key), shown(name), "float16, bfloat16 or float32",
           "activations are summed in one of these types");
  }
  return 2;
}

// Checks that the head width and the queries per key-value head are whole numbers.
void check_heads(const JsonObject& file, const Transformer& model, const std::string& hidden_key,
                 const std::string& heads_key) {
  if (model.head_width == 0 && model.hidden % model.heads != 0) {
    throw FileError(file.place(heads_key), "found " + std::to_string(model.heads) +
                                               ", expected a divisor of " + hidden_key + " = " +
                                               std::to_string(model.hidden) +
                                               "; all heads have the same width");
  }
  if (model.kv_heads != 0 && model.heads % model.kv_heads != 0) {
    throw FileError(file.place("num_key_value_heads"), "found " + std::to_string(model.kv_heads) +
                                                           ", expected a divisor of " + heads_key +
                                                           " = " + std::to_string(model.heads));
  }
}

Transformer read_gpt2(const JsonObject& file) {
  Transformer model;
  model.hidden = read_count(file, "n_embd");
  model.layers = read_count(file, "n_layer");
  model.heads = read_count(file, "n_head");
  model.ffn = read_count_if_present(file, "n_inner");
  model.attention_biases = model.ffn_biases = true;
  // Hugging Face's default if the key is absent.
  model.positions = file.has_value("n_positions") ? read_count(file, "n_positions") : 1024;
  check_heads(file, model, "n_embd", "n_head");
  return model;
}

Transformer read_llama(const JsonObject& file) {
  Transformer model;
  model.hidden = read_count(file, "hidden_size");
  model.ffn = read_count(file, "intermediate_size");
  model.layers = read_count(file, "num_hidden_layers");
  model.heads = read_count(file, "num_attention_heads");
  model.kv_heads = read_count_if_present(file, "num_key_value_heads");
  model.head_width = read_count_if_present(file, "head_dim");
  model.attention_biases = file.yes_or_no("attention_bias", false);
  model.ffn_biases = file.yes_or_no("mlp_bias", false);
  model.gated = true;
  model.norm_statistics = 1;
  check_heads(file, model, "hidden_size", "num_attention_heads");
  return model;
}

Model read(const JsonObject& file, const std::string& path) {
  const std::string type = file.text("model_type", "gpt2 or llama");
  Model model;
  if (type == "gpt2") {
    model = {read_gpt2(file), file.place("n_head")};
  } else if (type == "llama") {
    model = {read_llama(file), file.place("num_attention_heads")};
  } else {
    refuse(file.place("model_type"), shown(type), listed(kModelTypes),
           "for a transformer with the same matrices, give the sizes as options instead "
           "(--hidden, --layers, --heads)");
  }
  Transformer& transformer = model.transformer;
  transformer.vocabulary = read_count_if_present(file, "vocab_size");
  // Hugging Face's default if the key is absent.
  transformer.tied_head = file.yes_or_no("tie_word_embeddings", type == "gpt2");
  transformer.bytes_per_element = read_element_bytes(file);
  const std::string base = path.substr(path.find_last_of('/') + 1);
  transformer.name = made_plain(base.substr(0, base.find_last_of('.')));
  const Status valid = planner::validate(transformer);
  if (!valid) throw FileError({path, 0, ""}, valid.error().message);
  return model;
}

}  // namespace

Result<Model> parse_model(std::string_view text, const std::string& file) {
  return read_or_error([&] { return read(JsonObject(text, file), file); });
}

Result<Model> read_model(const std::string& path) {
  const std::string name = input_name(path);
  return read_or_error([&] { return read(JsonObject(read_text_file(path), name), name); });
}

}  // namespace atp
