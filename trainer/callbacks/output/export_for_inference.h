// Writes the trained model at the end of a run (FIT_END), for other programs:
//
//   {folder}/model.safetensors   parameters and buffers by their names in the model; readable by any safetensors reader
//   {folder}/config.json         {"model": the job's description of the model, "training": {run_name, epoch, batch,
//                                sample, token}, "tokenizer": {name, vocab_size} if there is one, "composer_version"}
//   {folder}/tokenizer.json, …   the tokenizer's own files (Tokenizer::Files)
//
// With EMA the weights are the averages. Tensors keep their dtype and shape; each file is written whole or not at all.
// Rank 0 writes. A checkpoint of the same step is different: it also has the optimizer, and serves to resume the run.
// Composer's exports TorchScript or ONNX, which need Python's tracer; neither can be made from a C++ module.
// Source: mosaicml composer/callbacks/export_for_inference.py, composer/utils/inference.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "trainer/core/callback.h"
#include "trainer/core/model.h"

namespace composer {

// Writes the tensors of a model as one safetensors file, atomically; it is durable on return. Returns kInvalidArgument
// for a tensor that safetensors cannot hold, else the file system's errors.
// `whole` has parameters that replace the model's by name where the model's are pieces of a sharded model
// (ModelSharding::WholeParameters).
absl::Status ExportModel(const Model& model, const std::string& folder, const std::string& config_json,
                         const std::vector<std::pair<std::string, at::Tensor>>& whole = {});

class ExportForInference final : public Callback {
 public:
  struct Options {
    std::string folder;             // "" means {run_folder}/export
    std::string model_json = "{}";  // a JSON value
  };
  explicit ExportForInference(Options options) : options_(std::move(options)) {}

  std::string name() const override { return "ExportForInference"; }
  EventSet events() const override { return {Event::kFitEnd}; }
  // Returns kFailedPrecondition without a folder.
  absl::Status Run(Event event, State& state, Logger& logger) override;

 private:
  Options options_;
};

}  // namespace composer
