// LoRA trains two thin matrices beside chosen linear layers and leaves the model's own weights as they are:
//
//   y = W x + b + scale B A dropout(x),   A [r, in], B [out, r],   scale = lora_alpha / r, or lora_alpha / sqrt(r)
//
// A begins as torch's Linear does, B at 0, so that the model begins as it was. Names of options are those of
// huggingface/peft 0.21 (LoraConfig), and so are the meanings of target_modules and the names of parameters, but for
// the prefix: layer `q_proj` keeps `q_proj.weight` and gets `q_proj.lora_A.weight` and `q_proj.lora_B.weight`.
// Source: Hu et al. 2021, arXiv:2106.09685; the square root: Kalajdzievski 2023, arXiv:2312.03732.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/algorithms/surgery/surgery.h"
#include "trainer/layers/slot.h"
#include "trainer/layers/torch_layers.h"

namespace composer {

struct LoraOptions {
  int64_t r = 8;
  double lora_alpha = 8;
  double lora_dropout = 0;
  bool use_rslora = false;  // the square root above
  // Layers by their names, the ends of their names behind a dot ("q_proj"), or patterns in which `*` also matches dots;
  // "all-linear": every linear layer but the last.
  std::vector<std::string> target_modules;
  std::vector<std::string> modules_to_save;  // layers that are trained whole, chosen in the same way
  // A folder with PEFT's adapter_config.json and adapter_model.safetensors, which says all of the above except the
  // dropout, and whose values the run begins with; "": none.
  std::string adapter;

  double scale() const;
};

// Reads `adapter`'s configuration into the options. kInvalidArgument names the field of adapter_config.json that is not
// supported; kNotFound, kDataLoss: the file cannot be read.
absl::StatusOr<LoraOptions> ReadLoraAdapter(LoraOptions options);

// A linear layer, or GPT-2's (models/text/text_layers.h), with its two matrices. The layer's own parameters keep their
// names and are frozen.
class LoraLayer final : public torch::nn::Module, public Layer {
 public:
  // Throws c10::ValueError for a base that has no weight of two dimensions.
  LoraLayer(const torch::nn::Module& base, bool transposed, const LoraOptions& options);
  // Maps [.., in] to [.., out].
  at::Tensor forward(const at::Tensor& x) override;
  // Whether the weight is [in, out].
  bool transposed() const { return transposed_; }

 private:
  at::Tensor weight_, bias_;
  Slot<Layer> lora_A_, lora_B_;
  double dropout_, scale_;
  bool transposed_;
};

class Lora final : public Surgery {
 public:
  explicit Lora(LoraOptions options) : options_(std::move(options)) {}
  std::string name() const override { return "LoRA"; }
  // kInvalidArgument: a target is not there (with the nearest name), or no linear layer; the adapter does not fit.
  absl::Status ChangeModel(Model& model, const ModelContext& context) override;
  // PEFT's adapter_config.json, which `composer checkpoint export` reads.
  std::string SaveState() const override { return config_json_; }
  // kInvalidArgument if the checkpoint's rank or scale is another one.
  absl::Status LoadState(absl::string_view json) override;

 protected:
  std::vector<std::pair<std::string, size_t>> LayersOf(const Model& model) const override;

 private:
  LoraOptions options_;
  std::string config_json_;
};

}  // namespace composer
