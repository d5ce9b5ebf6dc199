// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/hf/hf_config.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/format/json.h"
#include "checkpoint/format/json_text.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;
constexpr int64_t kMaxSize = int64_t{1} << 24;

// What has no effect on weights and results, or only on generation, which has options of its own.
constexpr const char* kWithoutEffect[] = {"_attn_implementation",
                                          "_attn_implementation_autoset",
                                          "_commit_hash",
                                          "_name_or_path",
                                          "architectures",
                                          "auto_map",
                                          "bos_token_id",
                                          "cls_token_id",
                                          "decoder_start_token_id",
                                          "do_sample",
                                          "dtype",
                                          "early_stopping",
                                          "eos_token_id",
                                          "finetuning_task",
                                          "gradient_checkpointing",
                                          "id2label",
                                          "init_std",
                                          "initializer_factor",
                                          "label2id",
                                          "language",
                                          "mask_token_id",
                                          "max_length",
                                          "min_length",
                                          "model_type",
                                          "no_repeat_ngram_size",
                                          "num_beams",
                                          "num_labels",
                                          "output_attentions",
                                          "output_hidden_states",
                                          "output_past",
                                          "pad_token_id",
                                          "prefix",
                                          "problem_type",
                                          "repetition_penalty",
                                          "return_dict",
                                          "sep_token_id",
                                          "task_specific_params",
                                          "temperature",
                                          "tokenizer_class",
                                          "top_k",
                                          "top_p",
                                          "torch_dtype",
                                          "torchscript",
                                          "transformers_version",
                                          "unk_token_id",
                                          "use_bfloat16",
                                          "use_cache"};

std::string TextOf(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}

[[noreturn]] void Throw(const std::string& message) {
  throw StatusError(absl::InvalidArgumentError(absl::StrCat("config.json: ", message)));
}

}  // namespace

absl::StatusOr<HfConfig> HfConfig::Parse(absl::string_view text) {
  if (text.size() > kMaxBytes) return absl::InvalidArgumentError("config.json: it is larger than 1 MiB");
  if (const absl::Status status = CheckJson(text); !status.ok())
    return absl::InvalidArgumentError(absl::StrCat("config.json: ", status.message()));
  nlohmann::json json = ParseJson(text);
  if (!json.is_object()) return absl::InvalidArgumentError("config.json: it is no JSON object");
  return HfConfig(std::move(json));
}

void HfConfig::Refuse(const std::string& field, const std::string& allowed) const {
  Throw(absl::StrCat("`", path_, field, "` is ", TextOf(json_.at(field)), "; ", allowed));
}

const nlohmann::json& HfConfig::Ask(const std::string& field) {
  static const nlohmann::json& none = *new nlohmann::json();
  known_.insert(field);
  const auto found = json_.find(field);
  return found == json_.end() ? none : *found;
}

bool HfConfig::Has(const std::string& field) const {
  const auto found = json_.find(field);
  return found != json_.end() && !found->is_null();
}

int64_t HfConfig::Size(const std::string& field, int64_t fallback) { return Int(field, fallback, 1, kMaxSize); }

int64_t HfConfig::RequiredSize(const std::string& field) {
  if (!Has(field)) Throw(absl::StrCat("`", path_, field, "` is missing"));
  return Size(field, 1);
}

int64_t HfConfig::Int(const std::string& field, int64_t fallback, int64_t min, int64_t max) {
  const nlohmann::json& value = Ask(field);
  if (value.is_null()) return fallback;
  const bool fits = value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX);
  if (!fits || value.get<int64_t>() < min || value.get<int64_t>() > max)
    Refuse(field, absl::StrCat("it must be a whole number from ", min, " to ", max));
  return value.get<int64_t>();
}

double HfConfig::Double(const std::string& field, double fallback, double min, double max) {
  const nlohmann::json& value = Ask(field);
  if (value.is_null()) return fallback;
  const double number = value.is_number() ? value.get<double>() : min - 1;
  if (!(number >= min && number <= max)) Refuse(field, absl::StrCat("it must be a number from ", min, " to ", max));
  return number;
}

bool HfConfig::Bool(const std::string& field, bool fallback) {
  const nlohmann::json& value = Ask(field);
  if (value.is_null()) return fallback;
  if (!value.is_boolean()) Refuse(field, "it must be true or false");
  return value.get<bool>();
}

std::string HfConfig::String(const std::string& field, const std::string& fallback) {
  const nlohmann::json& value = Ask(field);
  if (value.is_null()) return fallback;
  if (!value.is_string()) Refuse(field, "it must be a text");
  return value.get<std::string>();
}

std::vector<std::string> HfConfig::Strings(const std::string& field) {
  const nlohmann::json& value = Ask(field);
  std::vector<std::string> texts;
  if (value.is_null()) return texts;
  if (!value.is_array()) Refuse(field, "it must be a list of texts");
  for (const nlohmann::json& text : value) {
    if (!text.is_string()) Refuse(field, "it must be a list of texts");
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

std::vector<int64_t> HfConfig::Sizes(const std::string& field, std::vector<int64_t> fallback) {
  const nlohmann::json& value = Ask(field);
  if (value.is_null()) return fallback;
  if (!value.is_array()) return {Size(field, 1)};
  std::vector<int64_t> sizes;
  for (const nlohmann::json& each : value) {
    if (!each.is_number_unsigned() || each.get<uint64_t>() < 1 || each.get<uint64_t>() > uint64_t{kMaxSize})
      Refuse(field, absl::StrCat("it must be a list of whole numbers from 1 to ", kMaxSize));
    sizes.push_back(each.get<int64_t>());
  }
  return sizes;
}

std::vector<double> HfConfig::Doubles(const std::string& field, double min, double max) {
  const nlohmann::json& value = Ask(field);
  const bool is_list = value.is_array() && std::all_of(value.begin(), value.end(), [&](const nlohmann::json& each) {
                         return each.is_number() && each.get<double>() >= min && each.get<double>() <= max;
                       });
  if (value.is_null()) return {};
  if (!is_list) Refuse(field, absl::StrCat("it must be a list of numbers from ", min, " to ", max));
  return value.get<std::vector<double>>();
}

HfConfig HfConfig::Object(const std::string& field) {
  const nlohmann::json& value = Ask(field);
  if (!value.is_null() && !value.is_object()) Refuse(field, "it must be an object");
  return HfConfig(value.is_null() ? nlohmann::json::object() : value, absl::StrCat(path_, field, "."));
}

int64_t HfConfig::Entries(const std::string& field) {
  const nlohmann::json& value = Ask(field);
  if (!value.is_null() && !value.is_object()) Refuse(field, "it must be an object");
  return static_cast<int64_t>(value.size());
}

void HfConfig::Only(const std::string& field, const std::vector<nlohmann::json>& values) {
  const nlohmann::json& value = Ask(field);
  if (value.is_null() || std::find(values.begin(), values.end(), value) != values.end()) return;
  const auto add_text = [](std::string* out, const nlohmann::json& each) { out->append(TextOf(each)); };
  Refuse(field, absl::StrCat("supported is only ", absl::StrJoin(values, ", ", add_text)));
}

void HfConfig::Ignore(std::initializer_list<const char*> fields) { known_.insert(fields.begin(), fields.end()); }

void HfConfig::Finish() const {
  std::vector<std::string> unknown;
  for (const auto& item : json_.items()) {
    const bool known = known_.contains(item.key()) || std::find(std::begin(kWithoutEffect), std::end(kWithoutEffect),
                                                                item.key()) != std::end(kWithoutEffect);
    if (!known && !item.value().is_null())
      unknown.push_back(absl::StrCat("`", path_, item.key(), "` (", TextOf(item.value()), ")"));
  }
  if (!unknown.empty())
    Throw(absl::StrCat("unsupported: ", absl::StrJoin(unknown, ", "), "; remove what has no effect on your weights"));
}

}  // namespace composer
