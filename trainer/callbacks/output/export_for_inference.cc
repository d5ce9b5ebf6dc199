// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/output/export_for_inference.h"

#include <torch/types.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/format/json.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/format/dtype.h"
#include "checkpoint/format/safetensors.h"
#include "checkpoint/save/writer.h"
#include "storage/local_store.h"
#include "trainer/core/callback.h"
#include "trainer/core/logger.h"
#include "trainer/core/model_sharding.h"
#include "trainer/core/state.h"
#include "trainer/export/onnx_export.h"
#include "trainer/export/torchscript_export.h"

namespace composer {
namespace {

constexpr char kWeights[] = "model.safetensors", kConfig[] = "config.json";
constexpr int64_t kExampleSamples = 3;

// Puts copies of a model's tensors on the CPU in their places, and the very same tensors back at the end: optimizers
// may hold views of them.
class OnCpu {
 public:
  explicit OnCpu(Model& model) {
    for (const at::Tensor& tensor : model.parameters()) Move(tensor);
    for (const at::Tensor& tensor : model.buffers()) Move(tensor);
  }
  ~OnCpu() {
    for (auto& [tensor, data] : moved_) tensor.set_data(data);
  }
  OnCpu(const OnCpu&) = delete;
  OnCpu& operator=(const OnCpu&) = delete;

 private:
  void Move(const at::Tensor& tensor) {
    if (tensor.is_cpu()) return;
    moved_.emplace_back(tensor, tensor.detach());
    moved_.back().first.set_data(tensor.detach().cpu());
  }
  std::vector<std::pair<at::Tensor, at::Tensor>> moved_;
};

Batch ExampleOf(const Batch& batch) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < kExampleSamples; ++i) rows.push_back(i % batch.num_samples);
  return batch.Select(rows).To(at::kCPU);
}

absl::Status WriteSafetensors(LocalStore& store, const std::vector<HostTensor>& tensors) {
  std::vector<SafetensorsEntry> entries;
  absl::flat_hash_map<std::string, absl::string_view> bytes;
  for (const HostTensor& tensor : tensors) {
    RETURN_IF_ERROR(StoredBytes(tensor.name, tensor.data).status());
    entries.push_back({tensor.name, std::string(DTypeName(tensor.data.scalar_type())), tensor.data.sizes().vec()});
    bytes[tensor.name] = {static_cast<const char*>(tensor.data.const_data_ptr()), tensor.data.nbytes()};
  }
  ASSIGN_OR_RETURN(const std::string header, LayOutSafetensors(&entries));
  std::vector<absl::string_view> pieces = {header};
  for (const SafetensorsEntry& entry : entries) pieces.push_back(bytes[entry.name]);
  return store.Put(kWeights, pieces);
}

std::string ConfigJson(const std::string& model_json, const State& state) {
  nlohmann::ordered_json config;
  const auto model = ParseOrderedJson(model_json);
  config["model"] = model.is_discarded() ? nlohmann::ordered_json() : model;
  config["training"] = {{"run_name", state.identity.run_name},
                        {"epoch", state.timestamp.epoch},
                        {"batch", state.timestamp.batch},
                        {"sample", state.timestamp.sample},
                        {"token", state.timestamp.token}};
  if (state.tokenizer != nullptr)
    config["tokenizer"] = {{"name", state.tokenizer->name()}, {"vocab_size", state.tokenizer->vocab_size()}};
  config["composer_version"] = COMPOSER_VERSION;
  return config.dump(2) + "\n";
}

}  // namespace

absl::Status ExportModel(const Model& model, const std::string& folder, const std::string& config_json,
                         const std::vector<std::pair<std::string, at::Tensor>>& whole) {
  std::vector<HostTensor> tensors;
  for (const auto& [name, tensor] : whole) tensors.push_back(ToHost(name, tensor));
  if (whole.empty()) {
    for (const auto& item : model.named_parameters()) tensors.push_back(ToHost(item.key(), item.value()));
  }
  for (const auto& item : model.named_buffers()) tensors.push_back(ToHost(item.key(), item.value()));
  LocalStore store(folder);
  RETURN_IF_ERROR(WriteSafetensors(store, tensors));
  return store.Put(kConfig, {config_json});
}

absl::StatusOr<std::string> ExportForInference::WriteTraced(Model& model, const std::string& folder) {
  const bool is_onnx = options_.format == ExportFormat::kOnnx;
  const std::string name = is_onnx ? "model.onnx" : "model.ts";
  if (!example_) {
    LOG(WARNING)
        << "export_for_inference: this run has trained no batch that could be an example; `composer checkpoint "
        << "export RUN " << name << "` writes the model";
    return "";
  }
  const OnCpu on_cpu(model);
  absl::StatusOr<std::string> file = is_onnx ? ExportOnnx(model, *example_) : ExportTorchScript(model, *example_);
  RETURN_IF_ERROR(Annotate(file.status(), "callbacks.export_for_inference.save_format"));
  RETURN_IF_ERROR(LocalStore(folder).Put(name, {*file}));
  return name;
}

absl::Status ExportForInference::Run(Event event, State& state, Logger& logger) {
  const bool traced = options_.format != ExportFormat::kSafetensors;
  if (event == Event::kFitEnd) return Export(state, logger);
  if (event == Event::kFitStart && traced && state.sharding != nullptr)
    return absl::InvalidArgumentError(
        "callbacks.export_for_inference.save_format: this format needs the whole model on a rank, and the model is "
        "sharded; write safetensors, or leave it out: `composer checkpoint export RUN model.ts` (or model.onnx) "
        "exports "
        "sharded runs");
  if (event == Event::kAfterDataloader && traced && !example_ && state.identity.rank == 0 &&
      state.batch.num_samples > 0)
    example_ = ExampleOf(state.batch);
  return absl::OkStatus();
}

absl::Status ExportForInference::Export(State& state, Logger& logger) {
  const InferenceWeightsScope weights(state.algorithms);
  std::vector<std::pair<std::string, at::Tensor>> whole;
  if (state.sharding != nullptr) whole = state.sharding->WholeParameters();  // a collective
  if (state.identity.rank != 0) return absl::OkStatus();
  if (options_.folder.empty() && state.identity.run_folder.empty())
    return absl::FailedPreconditionError("export_for_inference needs a folder (save_path) or a run_folder to write to");
  const std::string folder = options_.folder.empty() ? JoinPath(state.identity.run_folder, "export") : options_.folder;
  const std::string config = ConfigJson(options_.model_json, state);
  std::vector<std::string> names = {kWeights, kConfig};
  if (options_.format == ExportFormat::kSafetensors) {
    RETURN_IF_ERROR(ExportModel(*state.model, folder, config, whole));
  } else {
    ASSIGN_OR_RETURN(names[0], WriteTraced(*state.model, folder));
    if (names[0].empty()) return absl::OkStatus();
    RETURN_IF_ERROR(LocalStore(folder).Put(kConfig, {config}));
  }
  if (state.tokenizer != nullptr) {
    LocalStore store(folder);
    for (const auto& [name, bytes] : state.tokenizer->Files()) {
      RETURN_IF_ERROR(store.Put(name, {bytes}));
      names.push_back(name);
    }
  }
  LOG(INFO) << "export_for_inference: the model is in " << folder;
  for (const std::string& name : names) logger.LogFile(absl::StrCat("export/", name), JoinPath(folder, name));
  return absl::OkStatus();
}

}  // namespace composer
