// The families of Hugging Face models that Composer has: from a config.json to a model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "trainer/models/hf/hf_config.h"
#include "trainer/models/text/bert.h"
#include "trainer/models/text/clip_text.h"
#include "trainer/models/text/decoder_model.h"
#include "trainer/models/text/embedding_model.h"
#include "trainer/options/layer_plan.h"

namespace composer {

// What the user says beside the file.
struct HfTaskOptions {
  TextLossOptions loss;           // `task` is used when has_task
  EmbeddingOptions embedding;     // of the task kEmbedding
  bool has_task = false;          // else the task follows from the file's `architectures`
  bool has_problem = false;       // else the problem follows from `problem_type` and the number of labels
  int64_t num_labels = 0;         // 0: the file's, else 2
  int64_t max_seq_len = 0;        // 0: the file's; for decoders
  std::optional<double> dropout;  // in place of all dropouts of the file
};

// A model with its weights' first values, and how it was read.
struct HfFamilyModel {
  std::shared_ptr<Model> model;
  std::string prefix;              // of the base model's parameters: "bert."
  std::vector<std::string> heads;  // prefixes of the parameters that belong to the task
  std::vector<std::string> tied;   // names that a file may have for what is a part of another parameter here
  std::string architecture;        // transformers' class: "BertForMaskedLM"
};

// These read all fields, and throw c10::ValueError that names the field that is wrong or unsupported.
HfFamilyModel MakeHfBert(HfConfig& config, const HfTaskOptions& options, bool roberta);
// CLIPTextModel; model_type is clip_text_model.
HfFamilyModel MakeHfClipText(HfConfig& config, const HfTaskOptions& options);
HfFamilyModel MakeHfGpt2(HfConfig& config, const HfTaskOptions& options);
// model_type is llama, mistral, qwen2, qwen3 or mixtral.
HfFamilyModel MakeHfLlama(HfConfig& config, const HfTaskOptions& options, const std::string& model_type);
HfFamilyModel MakeHfMpt(HfConfig& config, const HfTaskOptions& options);
HfFamilyModel MakeHfVit(HfConfig& config, const HfTaskOptions& options);

// Returns the number of labels: `asked`, if above 0, else the file's, else 2.
int64_t HfLabels(HfConfig& config, int64_t asked);
// Returns the file's `problem_type`; regression for one label.
ProblemType HfProblem(HfConfig& config, int64_t labels);

}  // namespace composer
