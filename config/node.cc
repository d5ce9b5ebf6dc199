// SPDX-License-Identifier: Apache-2.0
#include "config/node.h"

#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace composer {

std::string SourceMark::ToString() const { return line == 0 ? source : absl::StrCat(source, ":", line, ":", column); }

const ConfigNode* ConfigNode::Find(absl::string_view wanted) const {
  if (!is_map()) return nullptr;
  for (const ConfigNode& child : children) {
    if (child.key == wanted) return &child;
  }
  return nullptr;
}

ConfigNode* ConfigNode::Find(absl::string_view wanted) {
  return const_cast<ConfigNode*>(std::as_const(*this).Find(wanted));
}

const ConfigNode* ConfigNode::FindPath(absl::string_view path) const {
  const ConfigNode* node = this;
  for (absl::string_view part : absl::StrSplit(path, '.')) {
    uint32_t index = 0;
    if (node->is_list() && absl::SimpleAtoi(part, &index) && index < node->children.size()) {
      node = &node->children[index];
    } else {
      node = node->Find(part);
    }
    if (node == nullptr) return nullptr;
  }
  return node;
}

void ConfigNode::AssignValue(ConfigNode value) {
  kind = value.kind;
  scalar = std::move(value.scalar);
  quoted = value.quoted;
  written = std::move(value.written);
  mark = std::move(value.mark);
  children = std::move(value.children);
}

std::vector<std::string> ConfigNode::Keys() const {
  std::vector<std::string> keys;
  if (!is_map()) return keys;
  for (const ConfigNode& child : children) keys.push_back(child.key);
  return keys;
}

std::string ConfigNode::Describe() const {
  constexpr size_t kShown = 60;
  switch (kind) {
    case Kind::kNull:
      return "nothing";
    case Kind::kMap:
      return "a map";
    case Kind::kList:
      return "a list";
    case Kind::kScalar:
      break;
  }
  const std::string text = shown().size() <= kShown ? shown() : absl::StrCat(shown().substr(0, kShown), "...");
  return quoted ? absl::StrCat("the string \"", text, "\"") : absl::StrCat("`", text, "`");
}

}  // namespace composer
