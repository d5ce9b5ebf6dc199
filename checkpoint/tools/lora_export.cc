// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/lora_export.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/format/json.h"
#include "checkpoint/format/json_text.h"
#include "checkpoint/tools/hf_export.h"

namespace composer {
namespace {

bool IsListOfTexts(const nlohmann::ordered_json& value) {
  if (!value.is_array()) return false;
  for (const auto& item : value) {
    if (!item.is_string()) return false;
  }
  return true;
}

bool IsConfig(const nlohmann::ordered_json& json) {
  return json.is_object() && json.contains("r") && json["r"].is_number_integer() && json["r"] > 0 &&
         json.contains("lora_alpha") && json["lora_alpha"].is_number() && json.contains("use_rslora") &&
         json["use_rslora"].is_boolean() && json.contains("fan_in_fan_out") && json["fan_in_fan_out"].is_boolean() &&
         json.contains("target_modules") && IsListOfTexts(json["target_modules"]) && json.contains("modules_to_save") &&
         (json["modules_to_save"].is_null() || IsListOfTexts(json["modules_to_save"]));
}

nlohmann::ordered_json ParsedOrNull(const std::string& text) {
  return CheckJson(text).ok() ? ParseOrderedJson(text) : nlohmann::ordered_json();
}

bool WasChangedByLora(const Manifest& manifest) {
  const auto found = manifest.small.find(kChangedByKey);
  if (found == manifest.small.end()) return false;
  for (const auto& item : ParsedOrNull(found->second)) {
    if (item.is_object() && item.contains("name") && item["name"] == kLoraName) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::optional<LoraState>> ReadLoraState(const Manifest& manifest) {
  if (!WasChangedByLora(manifest)) return std::nullopt;
  const auto found = manifest.small.find(absl::StrCat("algorithms/", kLoraName));
  if (found == manifest.small.end())
    return absl::FailedPreconditionError(
        "the checkpoint was saved with save_weights_only, so that it lacks LoRA's scale: export another one");
  nlohmann::ordered_json config = ParsedOrNull(found->second);
  if (!IsConfig(config)) return absl::DataLossError("the checkpoint's state of LoRA cannot be read");
  const auto rank = config["r"].get<double>();
  const double scale = config["lora_alpha"].get<double>() / (config["use_rslora"].get<bool>() ? std::sqrt(rank) : rank);
  LoraState state;
  for (const auto& name : config["target_modules"])
    state.layers.push_back({name.get<std::string>(), scale, config["fan_in_fan_out"].get<bool>()});
  if (config["modules_to_save"].is_array()) state.whole = config["modules_to_save"].get<std::vector<std::string>>();
  if (const auto model = manifest.small.find(kHuggingFaceKey); model != manifest.small.end()) {
    const nlohmann::ordered_json json = ParsedOrNull(model->second);
    if (json.is_object() && json.contains("folder") && json["folder"].is_string() && json["folder"] != "")
      config["base_model_name_or_path"] = json["folder"];
  }
  state.config_json = config.dump(2) + "\n";
  return state;
}

void ExportAdapterOnly(const LoraState& state, ExportOptions& options) {
  for (const MergedLayer& layer : state.layers) options.only.push_back(absl::StrCat(layer.name, ".lora_"));
  for (const std::string& name : state.whole) options.only.push_back(absl::StrCat(name, "."));
  options.file_name = "adapter_model.safetensors";
  options.renames = {{"", "base_model.model."}};
}

}  // namespace composer
