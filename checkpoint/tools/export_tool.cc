// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "checkpoint/folder/verify.h"
#include "checkpoint/tools/commands.h"
#include "checkpoint/tools/composer_export.h"
#include "checkpoint/tools/dcp_export.h"
#include "checkpoint/tools/hf_export.h"
#include "checkpoint/tools/lora_export.h"
#include "checkpoint/tools/weight_export.h"
#include "checkpoint/torch_files/packed_file.h"

namespace composer {
namespace {

constexpr struct {
  absl::string_view name;
  at::ScalarType type;
} kDTypeNames[] = {{"fp32", at::kFloat},     {"float32", at::kFloat},     {"f32", at::kFloat},
                   {"fp16", at::kHalf},      {"float16", at::kHalf},      {"f16", at::kHalf},
                   {"bf16", at::kBFloat16},  {"bfloat16", at::kBFloat16}, {"fp64", at::kDouble},
                   {"float64", at::kDouble}, {"f64", at::kDouble}};

OptionSetter IntoDType(std::optional<at::ScalarType>* target) {
  return [target](absl::string_view text) -> absl::Status {
    for (const auto& known : kDTypeNames) {
      if (known.name != text) continue;
      *target = known.type;
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        "must be fp32, fp16, bf16 or fp64; what runs quantized weights quantizes the exported ones (torchao, "
        "bitsandbytes, llama.cpp)");
  };
}

OptionSetter IntoByteSize(int64_t* target) {
  return [target](absl::string_view text) -> absl::Status {
    ASSIGN_OR_RETURN(*target, ParseByteSize(text));
    return absl::OkStatus();
  };
}

struct ExportRequest {
  ExportOptions weights;
  bool hf = false, adapter = false, weights_only = false, dcp = false;
  std::string from, into;
  bool IsOfTorch() const { return dcp || IsTorchFileName(into); }
};

absl::Status CheckForm(const ExportRequest& asked) {
  const bool has_layout = asked.hf || asked.adapter, torch = IsTorchFileName(asked.into);
  ASSIGN_OR_RETURN(const Packing packing, PackingOfName(asked.into));
  if (!torch && !packing.IsNone()) {
    return absl::InvalidArgumentError(absl::StrCat(asked.into,
                                                   ": of packed files there are x.pt.gz, x.pt.lz4, x.pt.zst, ",
                                                   "x.tar, x.tar.gz, x.tgz, x.tar.lz4 and x.tar.zst"));
  }
  if (asked.hf && asked.adapter)
    return absl::InvalidArgumentError("--hf merges what --adapter leaves apart: give one of them");
  if (asked.dcp && (has_layout || torch || absl::EndsWith(asked.into, ".safetensors")))
    return absl::InvalidArgumentError("--dcp writes a folder of its own: no --hf, --adapter, x.pt or x.safetensors");
  if (torch && has_layout) return absl::InvalidArgumentError("--hf and --adapter write a folder, not a .pt file");
  if (asked.weights_only && !asked.IsOfTorch())
    return absl::InvalidArgumentError("--weights-only is for x.pt and --dcp: safetensors hold weights only");
  if (asked.weights.dtype.has_value() && asked.IsOfTorch() && !asked.weights_only)
    return absl::InvalidArgumentError("--dtype: a run goes on with the types it has; add --weights-only");
  return absl::OkStatus();
}

absl::StatusOr<ExportRequest> ReadRequest(const std::vector<std::string>& args) {
  ExportRequest asked;
  const std::vector<Option> options = {
      Valued("dtype", "TYPE", "what floating-point tensors become", "", IntoDType(&asked.weights.dtype)),
      Valued("max-shard-size", "SIZE", "of one file", "5GB", IntoByteSize(&asked.weights.max_shard_bytes)),
      RenameOption(&asked.weights.renames),
      Switch("hf", "also config.json and tokenizer files, for transformers", IntoBool(&asked.hf)),
      Switch("adapter", "only what LoRA trained, for the package peft", IntoBool(&asked.adapter)),
      Switch("dcp", "a folder that torch.distributed.checkpoint loads", IntoBool(&asked.dcp)),
      Switch("weights-only", "of a file x.pt or with --dcp: without optimizer and time", IntoBool(&asked.weights_only)),
      Switch("overwrite", "replace files that are there", IntoBool(&asked.weights.overwrite))};
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ParseToolArguments(options, args, 2));
  asked.from = paths[0];
  asked.into = paths[1];
  RETURN_IF_ERROR(CheckForm(asked));
  return asked;
}

void PrintWritten(const CheckpointPlace& place, const std::vector<std::string>& written, const ToolContext& context) {
  context.out << "exported  " << place.store->Location(place.checkpoint) << "\n";
  for (const std::string& path : written) context.out << "wrote     " << path << "\n";
}

absl::Status ExportAsTorch(const CheckpointPlace& place, const ExportRequest& asked, const ToolContext& context) {
  if (IsRemotePlace(asked.into)) {
    return absl::InvalidArgumentError(absl::StrCat(
        asked.into, asked.dcp ? ": --dcp writes a local folder" : ": a .pt file is written to a local path",
        "; copy it there then"));
  }
  const auto write = asked.dcp ? ExportAsDcp : ExportForComposer;
  const ExportOptions& weights = asked.weights;
  const absl::StatusOr<std::vector<std::string>> notes =
      write(*place.store, place.checkpoint, asked.into,
            {weights.renames, asked.weights_only, weights.dtype, weights.overwrite});
  if (absl::IsAlreadyExists(notes.status()))
    return absl::AlreadyExistsError(absl::StrCat(notes.status().message(), "; --overwrite replaces it"));
  RETURN_IF_ERROR(notes.status());
  for (const std::string& note : *notes) context.err << "note: " << note << "\n";
  PrintWritten(place, {asked.into}, context);
  return absl::OkStatus();
}

// Takes a file's name off `folder`, when it is one.
std::string TakeFileName(std::string& folder) {
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  if (!absl::EndsWith(folder, ".safetensors")) return "";
  if (!IsRemotePlace(folder)) folder = AbsolutePath(folder);
  const std::string name(BaseName(folder));
  folder = DirName(folder);
  return name;
}

absl::Status ExportAsSafetensors(const CheckpointPlace& place, ExportRequest asked, const ToolContext& context) {
  ExportOptions& wanted = asked.weights;
  wanted.file_name = TakeFileName(asked.into);
  if ((asked.hf || asked.adapter) && (!wanted.file_name.empty() || !wanted.renames.empty())) {
    return absl::InvalidArgumentError(
        "--hf and --adapter write a folder with given names: no x.safetensors, no --rename");
  }
  HfExtras extras;
  std::optional<LoraState> lora;
  if (asked.hf || asked.adapter) {
    ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(*place.store, place.checkpoint));
    ASSIGN_OR_RETURN(lora, ReadLoraState(manifest));
    if (asked.hf) {
      ASSIGN_OR_RETURN(extras, ReadHfExtras(manifest, wanted));
      if (lora.has_value()) wanted.merged = lora->layers;
    }
  }
  if (asked.adapter && !lora.has_value())
    return absl::FailedPreconditionError("--adapter: the checkpoint's model was not trained with LoRA");
  if (asked.adapter) ExportAdapterOnly(*lora, wanted);
  ASSIGN_OR_RETURN(const std::shared_ptr<ObjectStore> into, OpenPlace(context.open, asked.into));
  absl::StatusOr<std::vector<std::string>> written = ExportWeights(*place.store, place.checkpoint, *into, wanted);
  if (absl::IsAlreadyExists(written.status()))
    return absl::AlreadyExistsError(absl::StrCat(written.status().message(), "; --overwrite replaces what is there"));
  RETURN_IF_ERROR(written.status());
  if (asked.hf) {
    ASSIGN_OR_RETURN(const std::vector<std::string> others, WriteHfExtras(extras, *into, wanted.overwrite));
    written->insert(written->end(), others.begin(), others.end());
  }
  if (asked.adapter) {
    const std::string key = "adapter_config.json";
    RETURN_IF_ERROR(wanted.overwrite ? into->Put(key, {lora->config_json})
                                     : into->PutIfAbsent(key, {lora->config_json}));
    written->push_back(key);
  }
  for (std::string& key : *written) key = into->Location(key);
  PrintWritten(place, *written, context);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> ExportTool(const std::vector<std::string>& args, const ToolContext& context) {
  ASSIGN_OR_RETURN(ExportRequest asked, ReadRequest(args));
  ASSIGN_OR_RETURN(const CheckpointPlace place, FindOneCheckpoint(asked.from, context));
  RETURN_IF_ERROR(asked.IsOfTorch() ? ExportAsTorch(place, asked, context)
                                    : ExportAsSafetensors(place, std::move(asked), context));
  return kToolDone;
}

}  // namespace composer
