// SPDX-License-Identifier: Apache-2.0
#include "job/compat/compile_config.h"

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

constexpr absl::string_view kModes[] = {"default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"};

bool IsSet(const ConfigNode& config, absl::string_view key) {
  const ConfigNode* node = config.Find(key);
  return node != nullptr && node->kind != ConfigNode::Kind::kNull;
}

bool HasGraphs(const ConfigNode& config) {
  const ConfigNode* mode = config.Find("mode");
  return mode != nullptr && (mode->scalar == "reduce-overhead" || mode->scalar == "max-autotune");
}

}  // namespace

void ReadCompileConfig(ConfigMap& root) {
  ConfigMap config = root.Map("compile_config");
  config.Bool("disable", false);
  config.Bool("fullgraph", false);
  if (config.Has("dynamic")) config.Bool("dynamic", false);
  config.String("backend", "inductor");
  if (config.Has("mode")) config.Choice("mode", kModes, "default");
  ConfigMap options = config.Map("options");
  options.IgnoreRest();  // as many as Inductor has
  // torch.compile's own rule.
  if (config.Has("mode") && options.exists()) config.Reject("options", "does not go with `mode`: give one of the two");
}

std::string WhatReplacesCompile(const ConfigNode& effective) {
  const ConfigNode* config = effective.Find("compile_config");
  if (config == nullptr || !config->is_map()) return "";
  const ConfigNode* disable = config->Find("disable");
  if (disable != nullptr && disable->scalar == "true") return "";
  return absl::StrCat(
      "compile_config: nothing is compiled, because torch.compile is Python; the model runs on "
      "LibTorch's operators, fused where docs/compile.md says",
      HasGraphs(*config) ? "; `cuda_graphs: true` captures steps as CUDA graphs" : "",
      IsSet(*config, "options") ? "; `options` are Inductor's, and have no effect" : "");
}

}  // namespace composer
