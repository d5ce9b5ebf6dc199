// The GPT of tests/golden/generation.json, and what Hugging Face's generates from its prompts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/types.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/trainer/loop/small_run.h"
#include "trainer/loop/generate_loop.h"
#include "trainer/models/gpt.h"

namespace composer {

// What transformers generates from each prompt alone with these options.
struct GoldenControl {
  GenerateOptions options;
  TokenLists tokens;
};

struct GoldenGeneration {
  GptOptions options;
  TokenLists prompts, greedy, greedy_eos;
  int64_t eos = 0;
  std::vector<std::vector<float>> logits;  // after each prompt
  std::vector<GoldenControl> controlled;
};

inline GoldenControl ReadGoldenControl(const nlohmann::json& row) {
  using EarlyStopping = BeamOptions::EarlyStopping;
  GoldenControl control{.tokens = row["tokens"]};
  GenerateOptions& options = control.options;
  options.eos_token_id = row["eos"].get<std::vector<int64_t>>();
  const nlohmann::json& arguments = row["arguments"];
  options.logits.repetition_penalty = arguments.value("repetition_penalty", 1.0);
  options.logits.no_repeat_ngram_size = arguments.value("no_repeat_ngram_size", 0);
  options.logits.min_new_tokens = arguments.value("min_new_tokens", 0);
  options.beams.num_beams = arguments.value("num_beams", 1);
  options.beams.length_penalty = arguments.value("length_penalty", 1.0);
  const nlohmann::json early = arguments.value("early_stopping", nlohmann::json(false));
  options.beams.early_stopping = early == "never" ? EarlyStopping::kNever
                                 : early == true  ? EarlyStopping::kTrue
                                                  : EarlyStopping::kFalse;
  return control;
}

inline GoldenGeneration ReadGoldenGeneration() {
  const nlohmann::json gpt = nlohmann::json::parse(std::ifstream("tests/golden/generation.json"))["gpt"];
  const nlohmann::json& options = gpt["options"];
  GoldenGeneration golden;
  golden.options.layers = options["layers"];
  golden.options.heads = options["heads"];
  golden.options.width = options["width"];
  golden.options.context = options["context"];
  golden.options.vocab = options["vocab"];
  golden.prompts = gpt["prompts"];
  golden.greedy = gpt["greedy"];
  golden.greedy_eos = gpt["greedy_eos"];
  golden.eos = gpt["eos"];
  golden.logits = gpt["logits"].get<std::vector<std::vector<float>>>();
  for (const nlohmann::json& row : gpt["controlled"]) golden.controlled.push_back(ReadGoldenControl(row));
  return golden;
}

// Matrices are 0.5 x draws, vectors 0.05 x draws, and norms' weights 1 more than that.
inline std::shared_ptr<Model> MakeGoldenGpt(const GptOptions& options) {
  const torch::NoGradGuard no_grad;
  std::shared_ptr<Model> model = MakeGpt(options);
  Draws draws(1);
  for (const auto& item : model->named_parameters()) {
    const at::Tensor& param = item.value();
    const bool norm = param.dim() == 1 && item.key().find("ln_") != std::string::npos &&
                      item.key().find("weight") != std::string::npos;
    float* values = param.mutable_data_ptr<float>();
    for (int64_t i = 0; i < param.numel(); ++i)
      values[i] = (param.dim() > 1 ? 0.5F : 0.05F) * draws.Next() + (norm ? 1.0F : 0.0F);
  }
  return model;
}

// Treats tokens of this model as bytes.
inline std::string TextOf(const std::vector<int64_t>& tokens) {
  std::string text;
  for (const int64_t token : tokens) text.push_back(static_cast<char>(token));
  return text;
}
inline std::vector<std::string> TextsOf(const TokenLists& lists) {
  std::vector<std::string> texts;
  for (const auto& tokens : lists) texts.push_back(TextOf(tokens));
  return texts;
}

}  // namespace composer
