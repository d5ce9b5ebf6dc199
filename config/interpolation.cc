// SPDX-License-Identifier: Apache-2.0
#include "config/interpolation.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "config/renamed_keys.h"

namespace composer {
namespace {

constexpr int kMaxReplacements = 10'000;
constexpr int kMaxDepth = 32;
constexpr size_t kMaxText = 64 << 10;

// Returns the position after the `}` that closes the `${` before `begin`; npos when none does.
size_t PastClosingBrace(absl::string_view text, size_t begin) {
  int open = 1;
  for (size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '{') ++open;
    if (text[i] == '}' && --open == 0) return i + 1;
  }
  return absl::string_view::npos;
}

std::string NoSuchValue(absl::string_view path, const ConfigNode& root) {
  std::vector<std::string> known = root.Keys();
  if (const ConfigNode* variables = root.Find("variables")) {
    for (const std::string& key : variables->Keys()) known.push_back(absl::StrCat("variables.", key));
  }
  return absl::StrCat("${", path, "}: there is no such value", DidYouMean(path, known));
}

class Interpolator {
 public:
  Interpolator(const Environment& env, const ConfigNode& root) : env_(env), root_(root) {}

  // Returns the node with all references replaced. Notes a value that could not be replaced in errors() and leaves it
  // unchanged.
  ConfigNode Resolve(const ConfigNode& node) {
    if (node.is_scalar() && node.scalar.find("${") != std::string::npos) {
      absl::StatusOr<ConfigNode> value = Expand(node, 0);
      if (value.ok()) return *std::move(value);
      errors_.push_back(absl::StrCat(node.mark.ToString(), ": ", value.status().message()));
      return node;
    }
    ConfigNode result = node;
    for (size_t i = 0; i < node.children.size(); ++i) result.children[i] = Resolve(node.children[i]);
    return result;
  }

  const std::vector<std::string>& errors() const { return errors_; }

 private:
  // Returns a scalar's value; keeps the scalar's key and mark.
  absl::StatusOr<ConfigNode> Expand(const ConfigNode& node, int depth) {
    if (depth > kMaxDepth) return absl::InvalidArgumentError("refers to itself");
    const absl::string_view text = node.scalar;
    const int read_before = variables_read_;
    ConfigNode result = node;
    if (absl::StartsWith(text, "${") && PastClosingBrace(text, 2) == text.size()) {
      ASSIGN_OR_RETURN(ConfigNode value, Lookup(text.substr(2, text.size() - 3), depth));
      value.mark = node.mark;
      result.AssignValue(std::move(value));
    } else {
      ASSIGN_OR_RETURN(result.scalar, ExpandText(text, depth));
    }
    if (result.children.empty() && variables_read_ != read_before) result.written = std::string(text);
    return result;
  }

  absl::StatusOr<std::string> ExpandText(absl::string_view text, int depth) {
    std::string result;
    while (!text.empty()) {
      const size_t at = text.find("${");
      if (at == absl::string_view::npos) break;
      if (at > 0 && text[at - 1] == '\\') {
        absl::StrAppend(&result, text.substr(0, at - 1), "${");
        text.remove_prefix(at + 2);
        continue;
      }
      const size_t end = PastClosingBrace(text, at + 2);
      if (end == absl::string_view::npos) return absl::InvalidArgumentError("`${` without its `}`");
      ASSIGN_OR_RETURN(const ConfigNode value, Lookup(text.substr(at + 2, end - at - 3), depth));
      if (!value.is_scalar()) {
        return absl::InvalidArgumentError(
            absl::StrCat(text.substr(at, end - at), " is ", value.Describe(), ", not a text"));
      }
      absl::StrAppend(&result, text.substr(0, at), value.scalar);
      text.remove_prefix(end);
      if (result.size() > kMaxText) return absl::InvalidArgumentError("too long after replacing `${…}`");
    }
    absl::StrAppend(&result, text);
    return result;
  }

  // Returns what the inside of `${…}` stands for.
  absl::StatusOr<ConfigNode> Lookup(absl::string_view reference, int depth) {
    if (++replacements_ > kMaxReplacements) return absl::InvalidArgumentError("too many `${…}` replacements");
    if (absl::ConsumePrefix(&reference, "oc.env:") || absl::ConsumePrefix(&reference, "env:")) {
      return FromEnvironment(reference, depth);
    }
    const absl::string_view top = reference.substr(0, reference.find('.'));
    const std::string key = AcceptedKey(top);
    const ConfigNode* found =
        key.empty() ? root_.FindPath(reference) : root_.FindPath(absl::StrCat(key, reference.substr(top.size())));
    if (found == nullptr) found = root_.FindPath(absl::StrCat("variables.", reference));
    if (found == nullptr) return absl::InvalidArgumentError(NoSuchValue(reference, root_));
    return ExpandAll(*found, depth + 1);
  }

  absl::StatusOr<ConfigNode> ExpandAll(const ConfigNode& node, int depth) {
    if (node.is_scalar()) return Expand(node, depth);
    if (depth > kMaxDepth) return absl::InvalidArgumentError("refers to itself");
    if ((replacements_ += static_cast<int>(node.children.size())) > kMaxReplacements) {
      return absl::InvalidArgumentError("too many `${…}` replacements");
    }
    ConfigNode result = node;
    for (ConfigNode& child : result.children) {
      ASSIGN_OR_RETURN(ConfigNode value, ExpandAll(child, depth + 1));
      child = std::move(value);
    }
    return result;
  }

  absl::StatusOr<ConfigNode> FromEnvironment(absl::string_view reference, int depth) {
    ++variables_read_;
    const size_t comma = reference.find(',');
    const absl::string_view name = reference.substr(0, comma);
    ConfigNode result;
    result.kind = ConfigNode::Kind::kScalar;
    if (const std::optional<std::string> value = env_.Get(name)) {
      if (FirstBadUtf8(*value) != absl::string_view::npos)
        return absl::InvalidArgumentError(absl::StrCat("the environment variable ", name, " is not valid UTF-8"));
      result.scalar = *value;
    } else if (comma == absl::string_view::npos) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the environment variable ", name, " is not set; set it, or give a default: ${oc.env:", name, ",default}"));
    } else {
      if (depth >= kMaxDepth) return absl::InvalidArgumentError("nested too deep");
      ASSIGN_OR_RETURN(result.scalar, ExpandText(reference.substr(comma + 1), depth + 1));
    }
    if (result.scalar.empty() || result.scalar == "null") result.kind = ConfigNode::Kind::kNull;
    return result;
  }

  const Environment& env_;
  const ConfigNode& root_;
  int replacements_ = 0;
  int variables_read_ = 0;  // environment variables
  std::vector<std::string> errors_;
};

}  // namespace

absl::Status Interpolate(const Environment& env, ConfigNode& root) {
  Interpolator interpolator(env, root);
  ConfigNode resolved = interpolator.Resolve(root);
  if (!interpolator.errors().empty()) return absl::InvalidArgumentError(absl::StrJoin(interpolator.errors(), "\n"));
  root = std::move(resolved);
  return absl::OkStatus();
}

}  // namespace composer
