#include "atp/config/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "atp/config/text/testing_mistakes.h"

namespace atp {
namespace {

using planner::Transformer;
using testing::StartsWith;

constexpr const char* kGpt = R"({
  "model_type": "gpt2",
  "n_embd": 1024,
  "n_head": 16,
  "n_inner": null,
  "n_layer": 24,
  "task_specific_params": {"text-generation": {"n_embd": 7}},
  "torch_dtype": "float32",
  "vocab_size": 50257
})";

constexpr const char* kLlama = R"({
  "model_type": "llama",
  "hidden_size": 8192,
  "intermediate_size": 28672,
  "num_hidden_layers": 80,
  "num_attention_heads": 64,
  "num_key_value_heads": 8,
  "torch_dtype": "bfloat16",
  "vocab_size": 128256
})";

TEST(ModelFile, AGptIsRead) {
  const Result<Model> model = parse_model(kGpt, "models/gpt.json");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model.value().transformer, (Transformer{.name = "gpt",
                                                    .hidden = 1024,
                                                    .layers = 24,
                                                    .heads = 16,
                                                    .vocabulary = 50257,
                                                    .positions = 1024,
                                                    .attention_biases = true,
                                                    .ffn_biases = true,
                                                    .bytes_per_element = 4}));
  EXPECT_EQ(model.value().heads.text(), "models/gpt.json:4: n_head");
}

TEST(ModelFile, ALlamaHasTheBiasesThatItsFileNames) {
  for (const bool attention : {false, true}) {
    std::string text = kLlama;
    text.insert(text.find('{') + 1,
                attention ? "\"attention_bias\": true, " : "\"mlp_bias\": true, ");
    const Result<Model> model = parse_model(text, "llama.json");
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model.value().transformer.attention_biases, attention);
    EXPECT_EQ(model.value().transformer.ffn_biases, !attention);
  }
}

TEST(ModelFile, AGptHasAsManyPositionsAsItsFileSays) {
  std::string text = kGpt;
  text.insert(text.find('{') + 1, "\"n_positions\": 77, ");
  const Result<Model> model = parse_model(text, "gpt.json");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model.value().transformer.positions, 77u);
}

TEST(ModelFile, ALlamaIsRead) {
  const Result<Model> model = parse_model(kLlama, "llama.json");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model.value().transformer, (Transformer{.name = "llama",
                                                    .hidden = 8192,
                                                    .layers = 80,
                                                    .heads = 64,
                                                    .kv_heads = 8,
                                                    .ffn = 28672,
                                                    .gated = true,
                                                    .vocabulary = 128256,
                                                    .tied_head = false,
                                                    .bytes_per_element = 2,
                                                    .norm_statistics = 1}));
}

TEST(ModelFile, WithoutATypeAnElementHasTwoBytes) {
  const Result<Model> model =
      parse_model(R"({"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 2})", "f");
  ASSERT_TRUE(model);
  EXPECT_EQ(model.value().transformer.bytes_per_element, 2u);
}

TEST(ModelFile, EveryOptionalKeyIsRead) {
  const auto read = [](const char* text) {
    const Result<Model> model = parse_model(text, "f");
    EXPECT_TRUE(model) << model.error().message;
    return model.value().transformer;
  };
  const planner::Transformer gpt = read(
      R"({"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 2, "n_inner": 100,
          "dtype": "float32"})");
  EXPECT_EQ(gpt.ffn_width(), 100u);
  EXPECT_EQ(gpt.bytes_per_element, 4u);
  const planner::Transformer llama = read(
      R"({"model_type": "llama", "hidden_size": 100, "num_attention_heads": 3, "head_dim": 16,
          "num_hidden_layers": 2, "intermediate_size": 7, "torch_dtype": "float16"})");
  EXPECT_EQ(llama.q_width(), 48u) << "3 heads of 16, although 100 is not a multiple of 16";
  EXPECT_EQ(llama.bytes_per_element, 2u);
}

TEST(ModelFile, TheHeadIsTiedIfTheFileOrItsModelTypeSaysSo) {
  const auto tied = [](std::string text, const char* more) {
    text.insert(1, more);
    return parse_model(text, "f").value().transformer.tied_head;
  };
  EXPECT_TRUE(tied(kGpt, ""));
  EXPECT_FALSE(tied(kGpt, "\"tie_word_embeddings\": false,"));
  EXPECT_FALSE(tied(kLlama, ""));
  EXPECT_TRUE(tied(kLlama, "\"tie_word_embeddings\": true,"));
  EXPECT_TRUE(tied(kGpt, "\"tie_word_embeddings\": null,"));
}

TEST(ModelFile, AByteOrderMarkIsAccepted) {
  const std::string text = std::string("\xef\xbb\xbf") + kGpt;
  EXPECT_TRUE(parse_model(text, "f"));
}

TEST(ModelFile, AMissingKeyIsReportedWithTheLineOfItsObject) {
  const Result<Model> model = parse_model("\n\n{\"model_type\": \"gpt2\"}", "f");
  EXPECT_THAT(model.error().message, StartsWith("f:3: n_embd: is missing"));
}

TEST(ModelFile, EveryErrorNamesFileLineAndKey) {
  const struct {
    const char* text;
    std::string right;
    std::string wrong;
    const char* place;
    const char* rest;
  } rows[] = {
      {kGpt, "\"gpt2\"", "\"mixtral\"",
       "f:2: model_type:", "found \"mixtral\", expected gpt2 or llama"},
      {kGpt, "  \"model_type\": \"gpt2\",\n", "", "f:1: model_type:", "is missing"},
      {kGpt, "  \"n_embd\": 1024,\n", "", "f:1: n_embd:", "is missing"},
      {kGpt, "1024", "\"wide\"", "f:3: n_embd:", "found \"wide\", expected a whole number"},
      {kGpt, "1024", "-1024", "f:3: n_embd:", "found -1024"},
      {kGpt, "1024", "1024.5", "f:3: n_embd:", "found 1024.5"},
      {kGpt, "1024", "99999999999999999999999", "f:3: n_embd:", "expected a whole number"},
      {kGpt, "1024", "2147483648", "f:3: n_embd:", "expected a whole number from 1 to 1073741824"},
      {kGpt, "1024", "[1]", "f:3: n_embd:", "found a list or an object"},
      {kGpt, "16", "15", "f:4: n_head:", "expected a divisor of n_embd = 1024"},
      {kGpt, "\"float32\"", "\"int8\"", "f:8: torch_dtype:", "float16, bfloat16 or float32"},
      {kGpt, "\"n_head\": 16", "\"n_embd\": 16", "f:4: \"n_embd\":", "duplicate key"},
      {kGpt, "\"n_layer\": 24,", "\"n_layer\": 24", "f:7:", "not JSON"},
      {kLlama, "\"num_key_value_heads\": 8", "\"num_key_value_heads\": 7",
       "f:7: num_key_value_heads:", "expected a divisor of num_attention_heads = 64"},
  };
  for (const auto& row : rows) {
    expect_refused(row.text, {row.wrong, row.right, row.wrong, row.place, row.rest},
                   [](const std::string& text) { return parse_model(text, "f"); });
  }
}

TEST(ModelFile, TextThatIsNotAJsonObjectIsRefused) {
  for (const char* text : {"", "[]", "7", "null", "{", "{\"a\":", "\"x\"", "{} {}"}) {
    EXPECT_FALSE(parse_model(text, "f")) << text;
  }
}

}  // namespace
}  // namespace atp
