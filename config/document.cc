// SPDX-License-Identifier: Apache-2.0
#include "config/document.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "config/interpolation.h"
#include "config/override.h"
#include "config/renamed_keys.h"
#include "config/yaml.h"

namespace composer {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;

absl::StatusOr<ConfigNode> LoadFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxFileBytes));
  ASSIGN_OR_RETURN(ConfigNode node, ParseYaml(text, path));
  if (node.is_null()) node.kind = ConfigNode::Kind::kMap;
  if (!node.is_map()) {
    return absl::InvalidArgumentError(
        absl::StrCat(node.mark.ToString(), ": expected `key: value` lines, got ", node.Describe()));
  }
  RETURN_IF_ERROR(AcceptForeignKeys(node));
  return node;
}

// Merges maps key by key; replaces anything else.
void Merge(ConfigNode from, ConfigNode& into) {
  if (!into.is_map() || !from.is_map()) {
    into.AssignValue(std::move(from));
    return;
  }
  for (ConfigNode& child : from.children) {
    ConfigNode* existing = into.Find(child.key);
    if (existing == nullptr) {
      into.children.push_back(std::move(child));
    } else {
      existing->key_mark = child.key_mark;
      Merge(std::move(child), *existing);
    }
  }
}

uint64_t Fnv1a(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

}  // namespace

absl::StatusOr<ConfigNode> LoadConfig(const std::vector<std::string>& paths, const std::vector<std::string>& overrides,
                                      const Environment& env) {
  ConfigNode root;
  root.kind = ConfigNode::Kind::kMap;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(ConfigNode file, LoadFile(path));
    if (root.mark.source.empty()) root.mark = file.mark;
    Merge(std::move(file), root);
  }
  for (const std::string& text : overrides) RETURN_IF_ERROR(ApplyOverride(text, root));
  RETURN_IF_ERROR(AcceptForeignKeys(root));
  RETURN_IF_ERROR(Interpolate(env, root));
  return root;
}

std::string ConfigHash(const ConfigNode& root) { return absl::StrFormat("%016x", Fnv1a(ToYaml(root))); }

}  // namespace composer
