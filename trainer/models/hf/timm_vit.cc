// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/hf/timm_vit.h"

#include <torch/types.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "trainer/core/torch_status.h"
#include "trainer/models/hf/hf_config.h"

namespace composer {
namespace {

struct SizeRow {
  const char* name;
  int64_t width, depth, heads;
};
constexpr SizeRow kSizes[] = {{"tiny", 192, 12, 3},
                              {"small", 384, 12, 6},
                              {"base", 768, 12, 12},
                              {"large", 1024, 24, 16},
                              {"huge", 1280, 32, 16}};

struct Architecture {
  SizeRow size;
  int64_t patch = 0, image = 0;
};

// "vit_base_patch16_224", perhaps with a dot and a tag.
Architecture ArchitectureOf(const std::string& name) {
  const std::vector<std::string> parts = absl::StrSplit(name.substr(0, name.find('.')), '_');
  Architecture found;
  if (parts.size() == 4 && parts[0] == "vit" && absl::StartsWith(parts[2], "patch") &&
      absl::SimpleAtoi(absl::StripPrefix(parts[2], "patch"), &found.patch) &&
      absl::SimpleAtoi(parts[3], &found.image)) {
    for (const SizeRow& row : kSizes) {
      found.size = row;
      if (parts[1] == row.name) return found;
    }
  }
  throw StatusError(absl::InvalidArgumentError(
      absl::StrCat("config.json: `architecture` is `", name,
                   "`; of timm's, supported are vit_{tiny,small,base,large,huge}_patchP_SIZE")));
}

// In the block `layer` ("3"), "attn.proj.weight" becomes "vit.encoder.layer.3.attention.output.dense.weight".
std::string InBlock(absl::string_view layer, absl::string_view rest) {
  constexpr std::pair<const char*, const char*> kNames[] = {{"norm1.", "layernorm_before."},
                                                            {"norm2.", "layernorm_after."},
                                                            {"attn.proj.", "attention.output.dense."},
                                                            {"mlp.fc1.", "intermediate.dense."},
                                                            {"mlp.fc2.", "output.dense."}};
  for (const auto& [from, to] : kNames) {
    if (absl::StartsWith(rest, from))
      return absl::StrCat("vit.encoder.layer.", layer, ".", to, absl::StripPrefix(rest, from));
  }
  return absl::StrCat("blocks.", layer, ".", rest);  // whoever takes it will call it unexpected
}

std::string OutsideOfBlocks(const std::string& name) {
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"cls_token", "vit.embeddings.cls_token"},
      {"pos_embed", "vit.embeddings.position_embeddings"},
      {"patch_embed.proj.", "vit.embeddings.patch_embeddings.projection."},
      {"norm.", "vit.layernorm."},
      {"head.", "classifier."}};
  for (const auto& [from, to] : kNames) {
    if (absl::StartsWith(name, from)) return absl::StrCat(to, absl::StripPrefix(name, from));
  }
  return name;
}

// Returns part 0, 1 or 2 of three equal ones, by rows.
HfTensor Third(const HfTensor& tensor, int64_t part) {
  if (const auto* whole = std::get_if<at::Tensor>(&tensor)) return whole->chunk(3)[static_cast<size_t>(part)];
  StoredTensor stored = std::get<StoredTensor>(tensor);
  const int64_t bytes = (stored.entry.end - stored.entry.begin) / 3;
  stored.entry.begin += part * bytes;
  stored.entry.end = stored.entry.begin + bytes;
  stored.entry.shape[0] /= 3;
  return stored;
}

bool IsInThirds(const HfTensor& tensor) {
  const auto* stored = std::get_if<StoredTensor>(&tensor);
  const std::vector<int64_t> shape =
      stored != nullptr ? stored->entry.shape : std::get<at::Tensor>(tensor).sizes().vec();
  return !shape.empty() && shape[0] % 3 == 0;
}

}  // namespace

std::string FromTimmConfig(const std::string& text) {
  absl::StatusOr<HfConfig> read = HfConfig::Parse(text);
  if (!read.ok() || !read->Has("architecture") || read->Has("model_type")) return text;
  HfConfig& config = *read;
  const Architecture architecture = ArchitectureOf(config.String("architecture", ""));
  config.Only("global_pool", {"token"});
  config.Ignore({"num_features", "pretrained_cfg", "label_names", "label_descriptions"});
  HfConfig arguments = config.Object("model_args");
  arguments.Only("class_token", {true});
  arguments.Only("global_pool", {"token"});
  const int64_t classes = config.Int("num_classes", 1000, 0, int64_t{1} << 24);
  arguments.Only("num_classes", {classes});
  const int64_t width = arguments.Size("embed_dim", architecture.size.width);
  nlohmann::ordered_json json = {
      {"model_type", "vit"},
      {"hidden_size", width},
      {"num_hidden_layers", arguments.Size("depth", architecture.size.depth)},
      {"num_attention_heads", arguments.Size("num_heads", architecture.size.heads)},
      {"intermediate_size",
       static_cast<int64_t>(static_cast<double>(width) * arguments.Double("mlp_ratio", 4, 1e-3, 1e3))},
      {"image_size", arguments.Size("img_size", architecture.image)},
      {"patch_size", arguments.Size("patch_size", architecture.patch)},
      {"num_channels", arguments.Size("in_chans", 3)},
      {"qkv_bias", arguments.Bool("qkv_bias", true)},
      {"layer_norm_eps", 1e-6}};
  if (classes > 0) {
    json["architectures"] = {"ViTForImageClassification"};
    json["num_labels"] = classes;
  }
  arguments.Finish();
  config.Finish();
  return json.dump();
}

HfWeights FromTimmWeights(HfWeights weights) {
  const bool is_timm = std::any_of(weights.begin(), weights.end(),
                                   [](const auto& item) { return item.first == "patch_embed.proj.weight"; });
  if (!is_timm) return weights;
  HfWeights renamed;
  for (auto& [name, tensor] : weights) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(absl::StripPrefix(name, "blocks."), absl::MaxSplits('.', 1));
    if (!absl::StartsWith(name, "blocks.")) {
      renamed.emplace_back(OutsideOfBlocks(name), std::move(tensor));
    } else if (absl::StartsWith(parts.second, "attn.qkv.") && IsInThirds(tensor)) {
      int64_t part = 0;
      for (const char* own : {"query", "key", "value"})
        renamed.emplace_back(absl::StrCat("vit.encoder.layer.", parts.first, ".attention.attention.", own, ".",
                                          absl::StripPrefix(parts.second, "attn.qkv.")),
                             Third(tensor, part++));
    } else {
      renamed.emplace_back(InBlock(parts.first, parts.second), std::move(tensor));
    }
  }
  return renamed;
}

}  // namespace composer
