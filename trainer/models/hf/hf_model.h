// A Hugging Face folder as a model: config.json, and model.safetensors (or its parts, or pytorch_model.bin).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/core/model.h"
#include "trainer/models/hf/hf_families.h"

namespace composer {

struct HfModelOptions {
  std::string path;        // the folder; "": `config` is the whole config.json
  std::string config;      // a JSON object whose fields come in place of the file's; "": none
  bool pretrained = true;  // false: only config.json is read, and the weights are drawn, as without a path
  // Word tables and heads get at least so many rows, and config.json's `vocab_size` says so. What comes behind the
  // file's begins as in HfNames::file_rows. 0: as the file says.
  int64_t min_vocab = 0;
  HfTaskOptions task;
};

// A folder of timm's, whose config.json has an `architecture`, is read as transformers' would be (timm_vit.h).
//
// The families, by `model_type`: bert, clip_text_model, gpt2, llama, mistral, mixtral, mpt, qwen2, qwen3, roberta, vit.
std::vector<std::string> HfModelTypes();

// Reads the folder. Weights may be of the bare model or of another task of the family: then the task's own head keeps
// its first values. Tensors in F16, BF16 or F64 become float32. Under a deferred construction (init/deferred_init.h)
// only the headers of safetensors files are read, and values when a rank needs them. The model is a HuggingFaceModel
// with the config.json that transformers loads its weights with. The file's
// `architectures` become the task's. Throws StatusError for files that cannot be read (kNotFound,
// kDataLoss), and c10::ValueError that begins with "config.json" or "model." for everything else.
std::shared_ptr<Model> LoadHfModel(const HfModelOptions& options);

// Returns how tensor parallelism splits a family's layers. kInvalidArgument for an unknown one.
absl::StatusOr<LayerPlan> HfLayerPlan(const std::string& model_type);
// Returns the `model_type` of the options' config.json.
absl::StatusOr<std::string> ReadHfModelType(const HfModelOptions& options);

}  // namespace composer
