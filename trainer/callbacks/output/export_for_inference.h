// Writes the trained model at the end of a run (FIT_END), for other programs:
//
//   {folder}/model.safetensors   parameters and buffers by their names in the model; readable by any safetensors reader
//   {folder}/config.json         {"model": the job's description of the model, "training": {run_name, epoch, batch,
//                                sample, token}, "tokenizer": {name, vocab_size} if there is one, "composer_version"}
//   {folder}/tokenizer.json, …   the tokenizer's own files (Tokenizer::Files)
//
// In place of model.safetensors, as asked for, there is
//
//   {folder}/model.ts            a TorchScript module (trainer/export/torchscript_export.h), or
//   {folder}/model.onnx          an ONNX model (trainer/export/onnx_export.h)
//
// whose example is the run's first batch. Both need the whole model on a rank; sharded models are refused at FIT_START.
// With EMA the weights are the averages. Tensors keep their dtype and shape; each file is written whole or not at all.
// Rank 0 writes. A checkpoint of the same step is different: it also has the optimizer, and serves to resume the run.
// Source: mosaicml composer/callbacks/export_for_inference.py, composer/utils/inference.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/core/batch.h"
#include "trainer/core/callback.h"
#include "trainer/core/model.h"

namespace composer {

// Writes the tensors of a model as one safetensors file, atomically; it is durable on return. Returns kInvalidArgument
// for a tensor that safetensors cannot hold, else the file system's errors.
// `whole` has parameters that replace the model's by name where the model's are pieces of a sharded model
// (ModelSharding::WholeParameters).
absl::Status ExportModel(const Model& model, const std::string& folder, const std::string& config_json,
                         const std::vector<std::pair<std::string, at::Tensor>>& whole = {});

enum class ExportFormat { kSafetensors, kTorchScript, kOnnx };

class ExportForInference final : public Callback {
 public:
  struct Options {
    std::string folder;             // "" means {run_folder}/export
    std::string model_json = "{}";  // a JSON value
    ExportFormat format = ExportFormat::kSafetensors;
  };
  explicit ExportForInference(Options options) : options_(std::move(options)) {}

  std::string name() const override { return "ExportForInference"; }
  EventSet events() const override { return {Event::kFitStart, Event::kAfterDataloader, Event::kFitEnd}; }
  // Returns kFailedPrecondition without a folder, kInvalidArgument for a sharded model in a format that needs it whole.
  absl::Status Run(Event event, State& state, Logger& logger) override;

 private:
  absl::Status Export(State& state, Logger& logger);
  // Writes model.ts or model.onnx, and returns its name; "" after a run without a batch.
  absl::StatusOr<std::string> WriteTraced(Model& model, const std::string& folder);

  Options options_;
  std::optional<Batch> example_;  // on the CPU
};

}  // namespace composer
