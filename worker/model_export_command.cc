// SPDX-License-Identifier: Apache-2.0
#include "worker/model_export_command.h"

#include <torch/types.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/option_help.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "job/run/job_inference.h"
#include "storage/open_store.h"
#include "trainer/core/communicator.h"
#include "trainer/core/torch_status.h"
#include "trainer/export/onnx_export.h"
#include "trainer/export/torchscript_export.h"
#include "trainer/models/causal_decoder.h"
#include "trainer/models/hugging_face_model.h"
#include "worker/exit_codes.h"

namespace composer {
namespace {

constexpr char kModelUsage[] = "usage: composer checkpoint export RUN model.onnx|model.ts [flags]\n";
constexpr int64_t kExampleSamples = 3;  // of the example; the file takes any number
constexpr int64_t kMostSizes = 6;

struct ModelExportOptions {
  std::string run, output;
  int length = 0;              // 0: as many tokens as the model takes
  std::vector<int64_t> shape;  // of a sample
  bool overwrite = false;
  OnnxWeights weights = OnnxWeights::kAsTheyAre;
};

bool IsOnnx(const std::string& path) { return absl::EndsWith(path, ".onnx"); }

std::vector<Option> ModelExportFlags(ModelExportOptions& options) {
  return {Valued("length", "N", "tokens of a text; without it what a language model takes", "",
                 IntoInt(&options.length, 1, 1 << 20)),
          Valued("shape", "CxHxW", "of a sample that is not a text: 3x32x32", "",
                 [&options](absl::string_view text) -> absl::Status {
                   for (const absl::string_view part : absl::StrSplit(text, 'x')) {
                     int64_t size = 0;
                     if (!absl::SimpleAtoi(part, &size) || size < 1 || size > (1 << 20))
                       return absl::InvalidArgumentError("must be sizes joined by x, such as 3x32x32");
                     options.shape.push_back(size);
                   }
                   return static_cast<int64_t>(options.shape.size()) <= kMostSizes
                              ? absl::OkStatus()
                              : absl::InvalidArgumentError("has too many sizes");
                 }),
          Valued("quantize", "int8", "weights of x.onnx as int8 with a scale for each output", "",
                 [&options](absl::string_view text) -> absl::Status {
                   options.weights = OnnxWeights::kInt8;
                   return text == "int8" ? absl::OkStatus() : absl::InvalidArgumentError("must be int8");
                 }),
          Switch("overwrite", "replace a file that is there", IntoBool(&options.overwrite))};
}

// Finds the config.yaml of the run that a path belongs to: of the run's folder, or of a checkpoint below it.
absl::StatusOr<std::string> ConfigOf(const std::string& path) {
  if (IsRemotePlace(path))
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": an exported model needs the run's config.yaml; name the run's folder on this machine"));
  std::string folder = AbsolutePath(path);
  for (int up = 0; up < 3 && folder.size() > 1; ++up, folder = DirName(folder)) {
    if (PathExists(JoinPath(folder, "config.yaml"))) return JoinPath(folder, "config.yaml");
  }
  return absl::NotFoundError(absl::StrCat(path, ": there is no config.yaml, which says what the model is"));
}

absl::StatusOr<Batch> ExampleFor(const Model& model, const ModelExportOptions& options) {
  Batch batch;
  batch.num_samples = kExampleSamples;
  const auto* const decoder = dynamic_cast<const CausalDecoder*>(&model);
  if (decoder == nullptr && dynamic_cast<const HuggingFaceModel*>(&model) == nullptr) {
    if (options.shape.empty())
      return absl::InvalidArgumentError("--shape: required for a model that reads no texts, such as 3x32x32");
    std::vector<int64_t> sizes = options.shape;
    sizes.insert(sizes.begin(), kExampleSamples);
    batch.inputs = torch::zeros(sizes);
    return batch;
  }
  if (!options.shape.empty()) return absl::InvalidArgumentError("--shape: the model reads texts; use --length");
  const int64_t length = options.length > 0 ? options.length : decoder != nullptr ? decoder->context() : 0;
  if (length == 0) return absl::InvalidArgumentError("--length: required for this model: the tokens of a text");
  batch.inputs = torch::zeros({kExampleSamples, length}, at::kLong);
  if (decoder == nullptr) {
    batch.extra["attention_mask"] = torch::ones({kExampleSamples, length}, at::kLong);
    batch.extra["token_type_ids"] = torch::zeros({kExampleSamples, length}, at::kLong);
  }
  return batch;
}

absl::Status ExportRun(const ModelExportOptions& options, const Environment& env, std::ostream& out) {
  if (options.weights != OnnxWeights::kAsTheyAre && !IsOnnx(options.output))
    return absl::InvalidArgumentError("--quantize: only x.onnx has int8 weights");
  if (PathExists(options.output) && !options.overwrite)
    return absl::AlreadyExistsError(absl::StrCat(options.output, " exists; --overwrite replaces it"));
  JobSource source;
  ASSIGN_OR_RETURN(source.yaml_path, ConfigOf(options.run));
  source.trains = false;
  // The file has every key that was in force, and neither data nor what goes with a run is needed.
  for (const char* key : {"train_dataloader", "eval_dataloader", "icl_tasks", "callbacks", "loggers"})
    source.overrides.insert(source.overrides.end(), {absl::StrCat("++", key, "=1"), absl::StrCat("~", key)});
  ASSIGN_OR_RETURN(Job job, ReadJob(source, env));
  return CatchTorch([&]() -> absl::Status {
    JobPlace place;
    place.open_store = [env](const std::string& where) { return OpenStore(where, env); };
    JobCommand command;
    command.name = "generate";  // which reads no data
    command.checkpoint = options.run;
    LocalCommunicator alone(at::kCPU);
    ASSIGN_OR_RETURN(TrainerOptions trainer_options, BuildInferenceOptions(std::move(job), place, command));
    trainer_options.generate.clear();
    trainer_options.fsdp = {};
    trainer_options.tensor_parallel_degree = 1;
    trainer_options.split_model = nullptr;
    trainer_options.precision = Precision::kFp32;
    trainer_options.attention_backend = AttentionBackend::kAuto;
    trainer_options.device = at::kCPU;
    trainer_options.communicator = &alone;
    ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer, CreateForInference(std::move(trainer_options), command));
    Model& model = *trainer->state().model;
    ASSIGN_OR_RETURN(const Batch example, ExampleFor(model, options));
    absl::Status status;
    const absl::StatusOr<std::string> file =
        IsOnnx(options.output) ? ExportOnnx(model, example, options.weights) : ExportTorchScript(model, example);
    status = file.ok() ? AtomicWriteFile(options.output, *file) : file.status();
    if (status.ok()) out << "exported  " << trainer->loaded_from() << "\nwrote     " << options.output << "\n";
    trainer->Close();
    return status;
  });
}

}  // namespace

bool AsksForModelExport(const std::vector<std::string>& args) {
  return !args.empty() && args[0] == "export" && std::any_of(args.begin(), args.end(), [](const std::string& arg) {
    return IsOnnx(arg) || absl::EndsWith(arg, ".ts");
  });
}

int RunModelExport(const std::vector<std::string>& args, const Environment& env, std::ostream& out, std::ostream& err) {
  ModelExportOptions options;
  const absl::StatusOr<std::vector<std::string>> paths =
      ParseToolArguments(ModelExportFlags(options), {args.begin() + 1, args.end()}, 2);
  if (absl::IsCancelled(paths.status())) {
    out << kModelUsage << "\n" << paths.status().message();
    return exit_code::kDone;
  }
  absl::Status status = paths.status();
  if (status.ok()) {
    options.run = (*paths)[0];
    options.output = (*paths)[1];
    status = ExportRun(options, env, out);
  }
  if (status.ok()) return exit_code::kDone;
  err << "composer checkpoint export: " << PrintableText(status.message().substr(0, status.message().find('\n')))
      << "\n";
  if (!paths.ok()) err << kModelUsage;
  return ExitCodeFor(status.code());
}

}  // namespace composer
