// SPDX-License-Identifier: Apache-2.0
#include "config/document.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "config/foreign_names.h"
#include "config/interpolation.h"
#include "config/override.h"
#include "config/renamed_keys.h"
#include "config/schema.h"
#include "config/yaml.h"

namespace composer {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;

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

absl::StatusOr<ConfigNode> ParseFile(const std::string& path) {
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

// Reads files and what their `defaults` name, which comes before their own keys.
class FileLoader {
 public:
  absl::StatusOr<ConfigNode> Load(const std::string& path) {
    ASSIGN_OR_RETURN(ConfigNode node, ParseFile(path));
    if (++files_ > kMaxFiles) return absl::InvalidArgumentError(absl::StrCat(path, ": `defaults` name too many files"));
    const ConfigNode* given = node.Find("defaults");
    if (given == nullptr) return node;
    const ConfigNode defaults = *given;
    node.children.erase(node.children.begin() + (given - node.children.data()));
    if (!IsGiven(&defaults)) return node;
    ConfigNode merged;
    merged.kind = ConfigNode::Kind::kMap;
    merged.mark = node.mark;
    open_.push_back(path);
    if (defaults.is_scalar()) RETURN_IF_ERROR(Include(defaults, path, merged));
    for (const ConfigNode& item : defaults.children) RETURN_IF_ERROR(Include(item, path, merged));
    open_.pop_back();
    Merge(std::move(node), merged);
    return merged;
  }

 private:
  static constexpr int kMaxFiles = 100;

  absl::Status Include(const ConfigNode& item, const std::string& from, ConfigNode& merged) {
    const auto wrong = [&](absl::string_view why) {
      return absl::InvalidArgumentError(absl::StrCat(item.mark.ToString(), ": defaults: ", why));
    };
    if (!item.is_scalar() || (!item.key.empty() && item.key != "defaults"))
      return wrong(absl::StrCat("expected a list of files, relative to this one's folder, got ", item.Describe()));
    if (item.scalar == "_self_") return absl::OkStatus();
    const size_t slash = from.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : from.substr(0, slash + 1);
    std::string path = absl::StartsWith(item.scalar, "/") ? item.scalar : JoinPath(folder, item.scalar);
    if (!PathExists(path) && PathExists(path + ".yaml")) path += ".yaml";
    if (std::find(open_.begin(), open_.end(), path) != open_.end())
      return wrong(absl::StrCat(path, " is being read already: it includes itself"));
    absl::StatusOr<ConfigNode> file = Load(path);
    if (!file.ok() && file.status().code() != absl::StatusCode::kInvalidArgument)
      return absl::Status(file.status().code(), wrong(file.status().message()).message());
    RETURN_IF_ERROR(file.status());
    Merge(*std::move(file), merged);
    return absl::OkStatus();
  }

  int files_ = 0;
  std::vector<std::string> open_;
};

constexpr size_t kMaxConfigHash = 1000;  // the rendezvous takes no longer texts

uint64_t Fnv1a(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

}  // namespace

absl::StatusOr<ConfigNode> LoadRawConfig(const std::vector<std::string>& paths,
                                         const std::vector<std::string>& overrides) {
  ConfigNode root;
  root.kind = ConfigNode::Kind::kMap;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(ConfigNode file, FileLoader().Load(path));
    if (root.mark.source.empty()) root.mark = file.mark;
    Merge(std::move(file), root);
  }
  for (const std::string& text : overrides) RETURN_IF_ERROR(ApplyOverride(text, root));
  RETURN_IF_ERROR(AcceptForeignKeys(root));
  AcceptForeignVariables(BuiltInSchema(), root);
  return root;
}

absl::StatusOr<ConfigNode> LoadConfig(const std::vector<std::string>& paths, const std::vector<std::string>& overrides,
                                      const Environment& env) {
  ASSIGN_OR_RETURN(ConfigNode root, LoadRawConfig(paths, overrides));
  RETURN_IF_ERROR(Interpolate(env, root));
  RETURN_IF_ERROR(AcceptFastDevRun(root));
  RETURN_IF_ERROR(AcceptForeignNames(BuiltInSchema(), root));
  return root;
}

std::string ConfigHash(const ConfigNode& root) {
  std::string hash = absl::StrFormat("%016x", Fnv1a(ToYaml(root)));
  for (const ConfigNode& child : root.children) {
    const std::string part = absl::StrFormat(" %s=%06x", child.key, Fnv1a(ToYaml(child)) & 0xffffff);
    if (hash.size() + part.size() <= kMaxConfigHash) hash += part;
  }
  return hash;
}

}  // namespace composer
