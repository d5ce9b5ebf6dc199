// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/lora_adapter.h"

#include <torch/types.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/format/json.h"
#include "base/status_macros.h"
#include "checkpoint/format/json_text.h"
#include "checkpoint/tools/weight_files.h"
#include "trainer/core/model.h"
#include "trainer/layers/undeferred_scope.h"

namespace composer {
namespace {

using AdapterJson = nlohmann::ordered_json;

constexpr const char* kConfigFile = "adapter_config.json";
constexpr absl::string_view kPrefix = "base_model.model.";

absl::Status BadField(const std::string& key, const AdapterJson& value, absl::string_view allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat(kConfigFile, ": `", key, "` is ", value.dump().substr(0, 100), "; supported is ", allowed));
}

// Fields that are read below, or change no results.
constexpr absl::string_view kKnownFields[] = {"r",
                                              "lora_alpha",
                                              "use_rslora",
                                              "target_modules",
                                              "modules_to_save",
                                              "lora_dropout",
                                              "fan_in_fan_out",
                                              "auto_mapping",
                                              "base_model_name_or_path",
                                              "ensure_weight_tying",
                                              "inference_mode",
                                              "megatron_core",
                                              "peft_version",
                                              "qalora_group_size",
                                              "revision",
                                              "task_type"};
bool IsNothing(const AdapterJson& value) {
  return value.is_null() || value == false || ((value.is_object() || value.is_array()) && value.empty());
}

// Whatever is not known may change what the matrices mean.
absl::Status CheckFields(const AdapterJson& config) {
  for (const auto& [key, value] : config.items()) {
    if (std::find(std::begin(kKnownFields), std::end(kKnownFields), key) != std::end(kKnownFields) || IsNothing(value))
      continue;
    const char* allowed = key == "peft_type" ? "LORA" : key == "bias" ? "none" : nullptr;
    if (key == "init_lora_weights" && (value == true || value == "gaussian")) continue;
    if (allowed == nullptr) return BadField(key, value, "null");
    if (value != allowed) return BadField(key, value, allowed);
  }
  return absl::OkStatus();
}

absl::Status ReadTexts(const AdapterJson& config, const char* key, std::vector<std::string>* texts) {
  if (!config.contains(key) || config[key].is_null()) return absl::OkStatus();
  const AdapterJson& value = config[key];
  if (value == "all-linear") {
    *texts = {"all-linear"};
    return absl::OkStatus();
  }
  // One text is a regular expression there.
  if (!value.is_array()) return BadField(key, value, "a list of names, or all-linear");
  texts->clear();
  for (const AdapterJson& text : value) {
    if (!text.is_string()) return BadField(key, value, "a list of names, or all-linear");
    texts->push_back(text.get<std::string>());
  }
  return absl::OkStatus();
}

absl::Status ReadNumbers(const AdapterJson& config, LoraOptions* options) {
  if (!config.contains("r") || !config["r"].is_number_integer() || config["r"] < 1 || config["r"] > 65536)
    return BadField("r", config.value("r", AdapterJson()), "a whole number from 1 to 65536");
  options->r = config["r"].get<int64_t>();
  if (!config.contains("lora_alpha") || !config["lora_alpha"].is_number())
    return BadField("lora_alpha", config.value("lora_alpha", AdapterJson()), "a number");
  options->lora_alpha = config["lora_alpha"].get<double>();
  const AdapterJson rs = config.value("use_rslora", AdapterJson(false));
  if (!rs.is_boolean()) return BadField("use_rslora", rs, "true or false");
  options->use_rslora = rs.get<bool>();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LoraOptions> ReadLoraAdapter(LoraOptions options) {
  const std::string path = JoinPath(options.adapter, kConfigFile);
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, int64_t{1} << 20));
  RETURN_IF_ERROR(Annotate(CheckJson(text), path));
  const AdapterJson config = ParseOrderedJson(text);
  if (!config.is_object()) return absl::DataLossError(absl::StrCat(path, ": is no JSON object"));
  RETURN_IF_ERROR(CheckFields(config));
  RETURN_IF_ERROR(ReadNumbers(config, &options));
  RETURN_IF_ERROR(ReadTexts(config, "target_modules", &options.target_modules));
  RETURN_IF_ERROR(ReadTexts(config, "modules_to_save", &options.modules_to_save));
  if (options.target_modules.empty())
    return BadField("target_modules", config.value("target_modules", AdapterJson()), "a list of names, or all-linear");
  return options;
}

std::string LoraConfigJson(const LoraOptions& options, const NamedModules& targets, const NamedModules& whole,
                           bool transposed) {
  const auto names = [](const NamedModules& modules) {
    AdapterJson list = AdapterJson::array();
    for (const auto& [name, module] : modules) list.push_back(name);
    return list;
  };
  const AdapterJson config = {{"peft_type", "LORA"},
                              {"task_type", nullptr},
                              {"base_model_name_or_path", nullptr},
                              {"inference_mode", true},
                              {"r", options.r},
                              {"lora_alpha", options.lora_alpha},
                              {"lora_dropout", options.lora_dropout},
                              {"use_rslora", options.use_rslora},
                              {"bias", "none"},
                              {"fan_in_fan_out", transposed},
                              {"init_lora_weights", true},
                              {"target_modules", names(targets)},
                              {"modules_to_save", whole.empty() ? AdapterJson() : names(whole)}};
  return config.dump();
}

absl::Status TakeLoraAdapter(const std::string& folder, Model& model) {
  const std::string path = JoinPath(folder, "adapter_model.safetensors");
  absl::StatusOr<ImportedWeights> read = [&] {
    const UndeferredScope file;
    return ReadWeights(path, "");
  }();
  RETURN_IF_ERROR(read.status());
  const auto params = model.named_parameters();
  absl::flat_hash_set<std::string> found;
  const at::NoGradGuard no_grad;
  for (const auto& [written, values] : read->tensors) {
    absl::string_view name = written;
    absl::ConsumePrefix(&name, kPrefix);
    const at::Tensor* param = params.find(std::string(name));
    if (param == nullptr || !param->requires_grad())
      return absl::InvalidArgumentError(absl::StrCat("lora: ", path, ": the model trains no `", name, "`"));
    if (param->sizes() != values.sizes())
      return absl::InvalidArgumentError(absl::StrCat("lora: ", path, ": `", name, "` is of another shape"));
    param->copy_(values);
    found.insert(std::string(name));
  }
  for (const auto& item : params) {
    if (item.value().requires_grad() && !found.contains(item.key()))
      return absl::InvalidArgumentError(absl::StrCat("lora: ", path, ": `", item.key(), "` is missing"));
  }
  return absl::OkStatus();
}

}  // namespace composer
