// SPDX-License-Identifier: Apache-2.0
#include "config/foreign_names.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "config/name_advice.h"
#include "config/renamed_keys.h"
#include "config/scalar.h"

namespace composer {
namespace {

using Kind = ValueType::Kind;

// Names that are not ours in other spelling.
constexpr struct {
  absl::string_view kind, foreign, ours;
} kNames[] = {
    {"scheduler", "cosine_with_warmup", "cosine_annealing_with_warmup"},
    {"scheduler", "linear_decay_with_warmup", "linear_with_warmup"},
    {"scheduler", "CosineAnnealingWarmRestarts", "cosine_annealing_warm_restarts_lr"},
    {"model", "mpt_causal_lm", "mpt"},
    {"model", "mpt_causal_lm", "gpt"},
    {"model", "ComposerMPTCausalLM", "mpt"},
    {"callback", "early_stopping", "early_stopper"},
    {"logger", "file", "file_logger"},
    {"logger", "remote_uploader", "remote_uploader_downloader"},
    {"logger", "tensorboard_logger", "tensorboard"},
};

// Top-level values of llm-foundry's files that only its other values refer to.
constexpr absl::string_view kVariables[] = {"max_seq_len", "tokenizer_name", "data_local", "data_remote",
                                            "data_path",   "model_name",     "run_suffix"};

bool HasCapital(absl::string_view name) { return std::any_of(name.begin(), name.end(), absl::ascii_isupper); }

absl::Status GivenTwice(const ConfigNode& second, absl::string_view name, const ConfigNode& first) {
  return absl::InvalidArgumentError(absl::StrCat(second.key_mark.ToString(), ": ", second.key, ": is another name of `",
                                                 name, "`, which is given at ", first.key_mark.ToString()));
}

class NameRewriter {
 public:
  explicit NameRewriter(const Schema& schema) : schema_(schema) {}

  absl::Status Rewrite(const KeySection& section, ConfigNode& map) const {
    for (ConfigNode& child : map.children) {
      const KeyRow* row = section.Find(child.key);
      if (row == nullptr) continue;
      for (const ValueType& type : row->types) {
        if (const absl::Status status = RewriteValue(type, child); !status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status RewriteValue(const ValueType& type, ConfigNode& value) const {
    if (type.kind == Kind::kNamed || type.kind == Kind::kNamedList) {
      if (value.is_map()) RewriteNamed(type, value);
      for (ConfigNode& item : value.children) {
        if (value.is_list() && item.is_map()) RewriteNamed(type, item);
      }
    }
    if (type.kind != Kind::kNames) return absl::OkStatus();
    if (value.is_map()) return RewriteKeys(type, value);
    for (ConfigNode& item : value.children) {
      if (item.is_scalar()) Replace(type.section, item.scalar);
      if (!item.is_map()) continue;
      if (const absl::Status status = RewriteKeys(type, item); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  void Replace(absl::string_view kind, std::string& name) const {
    if (std::string ours = OurName(kind, name, schema_); !ours.empty()) name = std::move(ours);
  }

  void RewriteNamed(const ValueType& type, ConfigNode& map) const {
    ConfigNode* name = map.Find("name");
    if (name == nullptr || !name->is_scalar()) return;
    if (type.section == "dataset") TakeDatasetOut(map);
    Replace(type.section, map.Find("name")->scalar);
  }

  absl::Status RewriteKeys(const ValueType& type, ConfigNode& map) const {
    for (ConfigNode& entry : map.children) {
      const std::string ours = OurName(type.section, entry.key, schema_);
      if (ours.empty()) continue;
      if (const ConfigNode* other = map.Find(ours)) return GivenTwice(entry, ours, *other);
      entry.key = ours;
    }
    return absl::OkStatus();
  }

  // llm-foundry's loaders have the keys of their data in `dataset`, and their `text` reads shards.
  static void TakeDatasetOut(ConfigNode& loader) {
    ConfigNode* nested = loader.Find("dataset");
    if (nested == nullptr || !nested->is_map()) return;
    std::vector<ConfigNode> keys = std::move(nested->children);
    loader.children.erase(loader.children.begin() + (nested - loader.children.data()));
    for (ConfigNode& key : keys) {
      if (loader.Find(key.key) == nullptr) loader.children.push_back(std::move(key));
    }
    const bool shards =
        loader.Find("local") != nullptr || loader.Find("remote") != nullptr || loader.Find("streams") != nullptr;
    if (!shards || loader.Find("name")->scalar != "text") return;
    loader.Find("name")->scalar = "streaming";
    // Its shards have rows of tokens, which its model shifts.
    if (loader.Find("transforms") != nullptr) return;
    ConfigNode rename = MadeMap(loader, "rename"), item = MadeMap(loader, ""),
               transforms = MadeMap(loader, "transforms");
    rename.children = {MadeScalar(loader, "from", "tokens"), MadeScalar(loader, "to", "inputs")};
    item.children = {std::move(rename)};
    transforms.kind = ConfigNode::Kind::kList;
    transforms.children = {std::move(item), MadeScalar(loader, "", "shift")};
    loader.children.push_back(std::move(transforms));
  }

  const Schema& schema_;
};

// parallelism_config: {fsdp2: {reshard_after_forward: …}} becomes fsdp with the strategy that does the same.
absl::Status AcceptFsdp2(ConfigNode& root) {
  ConfigNode* parallelism = root.Find("parallelism_config");
  ConfigNode* fsdp2 = parallelism == nullptr ? nullptr : parallelism->Find("fsdp2");
  if (fsdp2 == nullptr) return absl::OkStatus();
  if (const ConfigNode* fsdp = parallelism->Find("fsdp")) return GivenTwice(*fsdp2, "fsdp", *fsdp);
  fsdp2->key = "fsdp";
  ConfigNode* reshard = fsdp2->Find("reshard_after_forward");
  if (reshard == nullptr || !reshard->is_scalar()) return absl::OkStatus();
  const std::string value = absl::AsciiStrToLower(reshard->scalar);
  if (value != "true" && value != "false") return absl::OkStatus();
  *reshard = MadeScalar(*reshard, "sharding_strategy", value == "true" ? "FULL_SHARD" : "SHARD_GRAD_OP");
  return absl::OkStatus();
}

bool RefersTo(const ConfigNode& node, absl::string_view name) {
  if (node.is_scalar()) {
    return absl::StrContains(node.scalar, absl::StrCat("${", name, "}")) ||
           absl::StrContains(node.scalar, absl::StrCat("${", name, "."));
  }
  return std::any_of(node.children.begin(), node.children.end(),
                     [&](const ConfigNode& child) { return RefersTo(child, name); });
}

void Set(ConfigNode& map, const ConfigNode& from, absl::string_view key, absl::string_view value) {
  ConfigNode* node = map.Find(key);
  if (node == nullptr) node = &map.children.emplace_back(MadeScalar(from, key, ""));
  *node = MadeScalar(from, key, value);
}

}  // namespace

absl::Status AcceptFastDevRun(ConfigNode& root) {
  const ConfigNode* given = root.Find("fast_dev_run");
  if (given == nullptr) return absl::OkStatus();
  const ConfigNode from = *given;
  const bool truth = from.is_scalar() && !from.quoted && (from.scalar == "true" || from.scalar == "True");
  const bool none = from.is_null() || (from.is_scalar() && (from.scalar == "false" || from.scalar == "False"));
  const absl::StatusOr<int64_t> batches = truth ? 1 : (none ? 0 : ParseIntScalar(from));
  if (!batches.ok() || *batches < 0 || *batches > 1'000'000) {
    return absl::InvalidArgumentError(absl::StrCat(from.mark.ToString(), ": fast_dev_run: expected true, false or a ",
                                                   "number of batches, got ", from.Describe()));
  }
  root.children.erase(root.children.begin() + (given - root.children.data()));
  if (*batches == 0) return absl::OkStatus();
  const std::string count = absl::StrCat(*batches), time = absl::StrCat(*batches, "ba");
  Set(root, from, "max_duration", time);
  Set(root, from, "eval_interval", time);
  Set(root, from, "eval_subset_num_batches", count);
  Set(root, from, "save_interval", "0");
  Set(root, from, "autoresume", "false");
  Set(root, from, "save_overwrite", "true");
  if (!IsGiven(root.Find("run_folder"))) Set(root, from, "run_folder", "runs/{run_name}.dev");
  std::erase_if(root.children, [](const ConfigNode& child) {
    return child.key == "save_folder" || child.key == "save_memory_interval" || child.key == "iteration_length";
  });
  ConfigNode* evaluations = root.Find("eval_dataloader");
  const auto shorten = [](ConfigNode& evaluation) {
    std::erase_if(evaluation.children, [](const ConfigNode& child) {
      return child.key == "eval_interval" || child.key == "subset_num_batches";
    });
  };
  if (evaluations != nullptr && evaluations->is_map()) shorten(*evaluations);
  if (evaluations != nullptr && evaluations->is_list()) {
    for (ConfigNode& item : evaluations->children) shorten(item);
  }
  return absl::OkStatus();
}

ConfigNode MadeScalar(const ConfigNode& from, absl::string_view key, absl::string_view value) {
  ConfigNode made;
  made.kind = ConfigNode::Kind::kScalar;
  made.key = std::string(key);
  made.scalar = std::string(value);
  made.mark = from.mark;
  made.key_mark = from.key_mark;
  return made;
}

ConfigNode MadeMap(const ConfigNode& from, absl::string_view key) {
  ConfigNode made = MadeScalar(from, key, "");
  made.kind = ConfigNode::Kind::kMap;
  return made;
}

std::string OurName(absl::string_view kind, absl::string_view name, const Schema& schema) {
  if (schema.Find(kind, name) != nullptr) return "";
  for (const auto& entry : kNames) {
    if (entry.kind == kind && entry.foreign == name && schema.Find(kind, entry.ours) != nullptr)
      return std::string(entry.ours);
  }
  if (!HasCapital(name)) return "";
  const std::string bare = BareName(name);
  for (const std::string& ours : schema.Names(kind)) {
    if (BareName(ours) == bare) return ours;
  }
  return "";
}

absl::Status AcceptForeignNames(const Schema& schema, ConfigNode& root) {
  if (const absl::Status status = AcceptFsdp2(root); !status.ok()) return status;
  if (const absl::Status status = AcceptDeepSpeed(root); !status.ok()) return status;
  AcceptForeignModels(root);
  const KeySection* job = schema.Find("map", "job");
  return job == nullptr ? absl::OkStatus() : NameRewriter(schema).Rewrite(*job, root);
}

void AcceptForeignVariables(const Schema& schema, ConfigNode& root) {
  const KeySection* job = schema.Find("map", "job");
  for (size_t i = 0; job != nullptr && i < root.children.size();) {
    const ConfigNode& child = root.children[i];
    const bool known = job->Find(child.key) != nullptr || !RenamedKeyAdvice(child.key).empty();
    const bool listed = std::find(std::begin(kVariables), std::end(kVariables), child.key) != std::end(kVariables);
    const ConfigNode* variables = root.Find("variables");
    const ConfigNode* same = variables == nullptr ? nullptr : variables->Find(child.key);
    const bool adds = same == nullptr || child.scalar == absl::StrCat("${variables.", child.key, "}") ||
                      (child.is_scalar() && same->is_scalar() && child.scalar == same->scalar);
    const bool has_place = variables == nullptr || variables->is_map();
    if (known || !adds || !has_place || (!listed && !RefersTo(root, child.key))) {
      ++i;
      continue;
    }
    ConfigNode value = child;
    root.children.erase(root.children.begin() + static_cast<std::ptrdiff_t>(i));
    if (root.Find("variables") == nullptr) root.children.push_back(MadeMap(value, "variables"));
    ConfigNode* place = root.Find("variables");
    if (place->Find(value.key) == nullptr) place->children.push_back(std::move(value));
  }
}

}  // namespace composer
