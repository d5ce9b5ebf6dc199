// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "checkpoint/folder/verify.h"
#include "checkpoint/format/dtype.h"
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

absl::StatusOr<int> ExportAsTorch(const CheckpointPlace& place, const std::string& path, bool dcp,
                                  const ComposerExportOptions& wanted, const ToolContext& context) {
  if (IsRemotePlace(path)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, dcp ? ": --dcp writes a local folder" : ": a .pt file is written to a local path",
                     "; copy it there then"));
  }
  if (wanted.dtype.has_value() && !wanted.weights_only)
    return absl::InvalidArgumentError("--dtype: a run goes on with the types it has; add --weights-only");
  const auto write = dcp ? ExportAsDcp : ExportForComposer;
  ASSIGN_OR_RETURN(const std::vector<std::string> notes, write(*place.store, place.checkpoint, path, wanted));
  for (const std::string& note : notes) context.err << "note: " << note << "\n";
  context.out << "exported  " << place.store->Location(place.checkpoint) << "\nwrote     " << path << "\n";
  return kToolDone;
}

}  // namespace

absl::StatusOr<int> ExportTool(const std::vector<std::string>& args, const ToolContext& context) {
  ExportOptions wanted;
  bool hf = false, adapter = false, weights_only = false, dcp = false;
  const std::vector<Option> options = {
      {.name = "dtype",
       .metavar = "TYPE",
       .help = "what floating-point tensors become",
       .set = IntoDType(&wanted.dtype)},
      {.name = "max-shard-size",
       .metavar = "SIZE",
       .help = "of one file",
       .fallback = "5GB",
       .set = IntoByteSize(&wanted.max_shard_bytes)},
      RenameOption(&wanted.renames),
      {.name = "hf", .help = "also config.json and tokenizer files, for transformers", .set = IntoBool(&hf)},
      {.name = "adapter", .help = "only what LoRA trained, for the package peft", .set = IntoBool(&adapter)},
      {.name = "dcp", .help = "a folder that torch.distributed.checkpoint loads", .set = IntoBool(&dcp)},
      {.name = "weights-only",
       .help = "of a file x.pt or with --dcp: without optimizer and time",
       .set = IntoBool(&weights_only)},
      {.name = "overwrite", .help = "replace files that are there", .set = IntoBool(&wanted.overwrite)}};
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ParseToolArguments(options, args, 2));
  ASSIGN_OR_RETURN(const Packing packing, PackingOfName(paths[1]));
  const bool torch = IsTorchFileName(paths[1]);
  if (!torch && !packing.IsNone()) {
    return absl::InvalidArgumentError(absl::StrCat(paths[1], ": of packed files there are x.pt.gz, x.pt.zst, x.tar, ",
                                                   "x.tar.gz, x.tgz and x.tar.zst"));
  }
  if (hf && adapter) return absl::InvalidArgumentError("--hf merges what --adapter leaves apart: give one of them");
  ASSIGN_OR_RETURN(const CheckpointPlace place, FindOneCheckpoint(paths[0], context));
  if (dcp && (hf || adapter || torch || absl::EndsWith(paths[1], ".safetensors")))
    return absl::InvalidArgumentError("--dcp writes a folder of its own: no --hf, --adapter, x.pt or x.safetensors");
  if (dcp || torch) {
    if (hf || adapter) return absl::InvalidArgumentError("--hf and --adapter write a folder, not a .pt file");
    const absl::StatusOr<int> code =
        ExportAsTorch(place, paths[1], dcp, {wanted.renames, weights_only, wanted.dtype, wanted.overwrite}, context);
    if (!absl::IsAlreadyExists(code.status())) return code;
    return absl::AlreadyExistsError(absl::StrCat(code.status().message(), "; --overwrite replaces it"));
  }
  if (weights_only)
    return absl::InvalidArgumentError("--weights-only is for x.pt and --dcp: safetensors hold weights only");
  std::string folder = paths[1];
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  if (absl::EndsWith(folder, ".safetensors")) {
    if (!IsRemotePlace(folder)) folder = AbsolutePath(folder);
    wanted.file_name = BaseName(folder);
    folder = DirName(folder);
  }
  if ((hf || adapter) && (!wanted.file_name.empty() || !wanted.renames.empty()))
    return absl::InvalidArgumentError(
        "--hf and --adapter write a folder with given names: no x.safetensors, no --rename");
  HfExtras extras;
  std::optional<LoraState> lora;
  if (hf || adapter) {
    ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(*place.store, place.checkpoint));
    ASSIGN_OR_RETURN(lora, ReadLoraState(manifest));
    if (hf) {
      ASSIGN_OR_RETURN(extras, ReadHfExtras(manifest, wanted));
      if (lora.has_value()) wanted.merged = lora->layers;
    }
  }
  if (adapter && !lora.has_value())
    return absl::FailedPreconditionError("--adapter: the checkpoint's model was not trained with LoRA");
  if (adapter) ExportAdapterOnly(*lora, wanted);
  ASSIGN_OR_RETURN(const std::shared_ptr<ObjectStore> into, OpenPlace(context.open, folder));
  absl::StatusOr<std::vector<std::string>> written = ExportWeights(*place.store, place.checkpoint, *into, wanted);
  if (absl::IsAlreadyExists(written.status()))
    return absl::AlreadyExistsError(absl::StrCat(written.status().message(), "; --overwrite replaces what is there"));
  RETURN_IF_ERROR(written.status());
  if (hf) {
    ASSIGN_OR_RETURN(const std::vector<std::string> others, WriteHfExtras(extras, *into, wanted.overwrite));
    written->insert(written->end(), others.begin(), others.end());
  }
  if (adapter) {
    const std::string key = "adapter_config.json";
    RETURN_IF_ERROR(wanted.overwrite ? into->Put(key, {lora->config_json})
                                     : into->PutIfAbsent(key, {lora->config_json}));
    written->push_back(key);
  }
  context.out << "exported  " << place.store->Location(place.checkpoint) << "\n";
  for (const std::string& key : *written) context.out << "wrote     " << into->Location(key) << "\n";
  return kToolDone;
}

}  // namespace composer
