// Writes the trained model at the end of a run (FIT_END), for other programs:
//
//   {folder}/model.safetensors   parameters and buffers by their names in the model; whatever reads safetensors reads it
//   {folder}/config.json         {"model": what the job says of the model, "training": {run_name, epoch, batch, sample,
//                                 token}, "composer_version"}
//
// With EMA the weights are the averages. Tensors are written as they are, dtype and shape; each file is whole or not there. Rank 0 writes. A checkpoint of the
// same moment is another thing: it has the optimizer, too, and is made to be gone on from.
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

// The tensors of a model as one safetensors file, written at one instant, durable when it returns.
// kInvalidArgument: a tensor that safetensors cannot hold; else the file system's errors.
// whole: parameters that replace the model's by name, which are pieces of a sharded model's
// (ModelSharding::WholeParameters); empty: none.
absl::Status ExportModel(const Model& model, const std::string& folder, const std::string& config_json,
                         const std::vector<std::pair<std::string, at::Tensor>>& whole = {});

class ExportForInference final : public Callback {
 public:
  struct Options {
    std::string folder;             // "": {run_folder}/export
    std::string model_json = "{}";  // a JSON value
  };
  explicit ExportForInference(Options options) : options_(std::move(options)) {}

  std::string name() const override { return "ExportForInference"; }
  EventSet events() const override { return {Event::kFitEnd}; }
  // kFailedPrecondition without a folder.
  absl::Status Run(Event event, State& state, Logger& logger) override;

 private:
  Options options_;
};

}  // namespace composer
