// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/hf_export.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/format/json.h"
#include "base/status_macros.h"
#include "checkpoint/format/json_text.h"
#include "checkpoint/tools/lora_export.h"

namespace composer {
namespace {

constexpr const char* kCopied[] = {"tokenizer.json",
                                   "tokenizer_config.json",
                                   "special_tokens_map.json",
                                   "added_tokens.json",
                                   "vocab.txt",
                                   "vocab.json",
                                   "merges.txt",
                                   "tokenizer.model",
                                   "sentencepiece.bpe.model",
                                   "chat_template.jinja",
                                   "preprocessor_config.json",
                                   "generation_config.json"};
constexpr int64_t kMaxCopiedBytes = int64_t{256} << 20;

const char* TorchName(at::ScalarType type) {
  return type == at::kHalf       ? "float16"
         : type == at::kBFloat16 ? "bfloat16"
         : type == at::kDouble   ? "float64"
                                 : "float32";
}

// The text is a list of {"name": …}.
bool ChangedOnlyBy(const char* name, const std::string& text) {
  const auto list = ParseJson(text);
  return list.is_array() && !list.empty() && std::all_of(list.begin(), list.end(), [&](const auto& item) {
           return item.is_object() && item.contains("name") && item["name"] == name;
         });
}

absl::Status PutFile(ObjectStore& into, const std::string& key, const std::string& content, bool overwrite) {
  return overwrite ? into.Put(key, {content}) : into.PutIfAbsent(key, {content});
}

}  // namespace

absl::StatusOr<HfExtras> ReadHfExtras(const Manifest& manifest, const ExportOptions& options) {
  const auto found = manifest.small.find(kHuggingFaceKey);
  if (found == manifest.small.end())
    return absl::FailedPreconditionError(
        "--hf: the checkpoint's model is of none of Hugging Face's families (model: {name: hf, …})");
  if (const auto changed = manifest.small.find(kChangedByKey);
      changed != manifest.small.end() && !ChangedOnlyBy(kLoraName, changed->second))
    return absl::FailedPreconditionError(
        absl::StrCat("--hf: algorithms have changed the model, so that transformers has no class for it: ",
                     changed->second.substr(0, 200)));
  const auto json = ParseJson(found->second);
  const bool has_texts = json.is_object() && json.contains("config") && json["config"].is_string() &&
                         json.contains("folder") && json["folder"].is_string();
  HfExtras extras;
  if (has_texts) {
    extras.config_json = json["config"].get<std::string>();
    extras.folder = json["folder"].get<std::string>();
  }
  if (!has_texts || !CheckJson(extras.config_json).ok())
    return absl::DataLossError("--hf: the checkpoint's config.json cannot be read");
  nlohmann::ordered_json config = ParseOrderedJson(extras.config_json);
  if (!config.is_object()) return absl::DataLossError("--hf: the checkpoint's config.json is not an object");
  config[config.contains("dtype") ? "dtype" : "torch_dtype"] = TorchName(options.dtype.value_or(at::kFloat));
  extras.config_json = config.dump(2) + "\n";
  return extras;
}

absl::StatusOr<std::vector<std::string>> WriteHfExtras(const HfExtras& extras, ObjectStore& into, bool overwrite) {
  std::vector<std::string> written = {"config.json"};
  RETURN_IF_ERROR(PutFile(into, "config.json", extras.config_json, overwrite));
  for (const char* name : kCopied) {
    const std::string path = JoinPath(extras.folder, name);
    if (extras.folder.empty() || !PathExists(path)) continue;
    ASSIGN_OR_RETURN(const std::string content, ReadFile(path, kMaxCopiedBytes));
    RETURN_IF_ERROR(PutFile(into, name, content, overwrite));
    written.emplace_back(name);
  }
  return written;
}

}  // namespace composer
