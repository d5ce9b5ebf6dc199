// What Composer's and llm-foundry's files call models that are here under another name with other keys: ResNets by
// number, the wrappers of Hugging Face's models, PEFT's configuration in the model, and their Lion.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "config/foreign_names.h"
#include "config/name_advice.h"

namespace composer {
namespace {

bool IsName(const ConfigNode& map, absl::string_view bare) {
  const ConfigNode* name = map.Find("name");
  return name != nullptr && name->is_scalar() && BareName(name->scalar) == bare;
}

void Erase(ConfigNode& map, absl::string_view key) {
  std::erase_if(map.children, [&](const ConfigNode& child) { return child.key == key; });
}

// resnet_56 of 9, 20 or 56 layers is Composer's for small images, resnet50 is torchvision's.
void AcceptResNet(ConfigNode& model) {
  std::string& name = model.Find("name")->scalar;
  const std::string bare = BareName(name);
  absl::string_view depth = bare;
  if (!absl::ConsumePrefix(&depth, "resnet") || model.Find("depth") != nullptr) return;
  const bool small = depth == "9" || depth == "20" || depth == "56";
  if (!small && depth != "18" && depth != "34" && depth != "50" && depth != "101" && depth != "152") return;
  name = small ? "resnet_cifar" : "resnet";
  model.children.push_back(MadeScalar(model, "depth", depth));
}

// The new name of a key, unless the map has it already.
void RenameKey(ConfigNode& map, absl::string_view from, absl::string_view to) {
  ConfigNode* value = map.Find(from);
  if (value != nullptr && map.Find(to) == nullptr) value->key = std::string(to);
}

// hf_causal_lm and hf_bert load what the folder `path` has; a name of the hub is refused where the folder is opened.
void AcceptHuggingFace(ConfigNode& model) {
  if (!IsName(model, "hfcausallm") && !IsName(model, "hfbert")) return;
  const bool has_path =
      model.Find("pretrained_model_name_or_path") != nullptr || model.Find("pretrained_model_name") != nullptr;
  if (!has_path && model.Find("path") == nullptr) return;
  const ConfigNode* path = model.Find("pretrained_model_name");
  const ConfigNode* tokenizer = model.Find("tokenizer_name");
  if (path != nullptr && tokenizer != nullptr && tokenizer->scalar == path->scalar) Erase(model, "tokenizer_name");
  RenameKey(model, "pretrained_model_name_or_path", "path");
  RenameKey(model, "pretrained_model_name", "path");
  RenameKey(model, "use_pretrained", "pretrained");
  model.Find("name")->scalar = "hf";
}

// model.peft_config becomes algorithms.lora; what PEFT takes of Llama's kind without target_modules is written out.
void AcceptPeft(ConfigNode& root, ConfigNode& model) {
  const ConfigNode* given = model.Find("peft_config");
  const ConfigNode* algorithms = root.Find("algorithms");
  if (given == nullptr || !given->is_map() || (algorithms != nullptr && !algorithms->is_map())) return;
  const ConfigNode* type = given->Find("peft_type");
  if (algorithms != nullptr && algorithms->Find("lora") != nullptr) return;
  if (type != nullptr && absl::AsciiStrToLower(type->scalar) != "lora") return;
  ConfigNode lora = *given;
  lora.key = "lora";
  for (const absl::string_view key : {"peft_type", "task_type", "inference_mode", "base_model_name_or_path"})
    Erase(lora, key);
  if (const ConfigNode* bias = lora.Find("bias"); bias != nullptr && bias->scalar == "none") Erase(lora, "bias");
  if (lora.Find("target_modules") == nullptr && lora.Find("adapter") == nullptr) {
    ConfigNode modules = MadeMap(lora, "target_modules");
    modules.kind = ConfigNode::Kind::kList;
    modules.children = {MadeScalar(lora, "", "q_proj"), MadeScalar(lora, "", "v_proj")};
    lora.children.push_back(std::move(modules));
  }
  Erase(model, "peft_config");
  if (algorithms == nullptr) root.children.push_back(MadeMap(lora, "algorithms"));
  root.Find("algorithms")->children.push_back(std::move(lora));
}

// llm-foundry's DecoupledLionW decays without the learning rate; without decay it is Lion.
void AcceptLion(ConfigNode& optimizer) {
  if (!IsName(optimizer, "decoupledlionw")) return;
  const ConfigNode* decay = optimizer.Find("weight_decay");
  const bool none = decay == nullptr || (decay->is_scalar() && !absl::StrContains(decay->scalar, "$") &&
                                         std::strtod(decay->scalar.c_str(), nullptr) == 0);
  if (none) optimizer.Find("name")->scalar = "lion";
}

}  // namespace

void AcceptForeignModels(ConfigNode& root) {
  if (ConfigNode* model = root.Find("model"); model != nullptr && model->Find("name") != nullptr) {
    ConfigNode taken = *model;  // the root's list may move
    if (taken.Find("name")->is_scalar()) {
      AcceptResNet(taken);
      AcceptHuggingFace(taken);
      if (taken.Find("name")->scalar == "hf") AcceptPeft(root, taken);
      *root.Find("model") = std::move(taken);
    }
  }
  if (ConfigNode* optimizer = root.Find("optimizers"); optimizer != nullptr) AcceptLion(*optimizer);
}

}  // namespace composer
