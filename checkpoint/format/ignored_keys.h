// IgnoredKeys says which tensors and keys of small state a save or a load passes over: those that match a pattern, or
// those that a function names.
//   options.save.save_ignore_keys = {"optimizer/*"};
//   options.load.load_ignore_keys = {"*", "!model/encoder.*"};  // nothing but the encoder
//   options.load.load_ignore_keys = [](const std::string& key) { return key.ends_with("/bias"); };
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace composer {

// Returns whether the last of the fnmatch patterns that fits the name is one without `!` before it, which takes names
// back that earlier ones matched; `*` also matches `/`.
bool Matches(const std::vector<std::string>& patterns, const std::string& name);

class IgnoredKeys {
 public:
  // Must answer the same on every rank.
  using Function = std::function<bool(const std::string& key)>;

  IgnoredKeys() = default;
  IgnoredKeys(std::vector<std::string> patterns) : patterns_(std::move(patterns)) {}
  IgnoredKeys(std::initializer_list<std::string> patterns) : patterns_(patterns) {}
  template <typename F>
    requires std::is_invocable_r_v<bool, F&, const std::string&>
  IgnoredKeys(F ignores) : ignores_(std::move(ignores)) {}

  bool Has(const std::string& key) const { return Matches(patterns_, key) || (ignores_ != nullptr && ignores_(key)); }
  // Adds patterns to what is ignored.
  void Add(const std::vector<std::string>& patterns) {
    patterns_.insert(patterns_.end(), patterns.begin(), patterns.end());
  }
  // Removes the prefix `state/` with which Composer's names begin; ours have none.
  IgnoredKeys WithoutStatePrefix() const;
  const std::vector<std::string>& patterns() const { return patterns_; }

 private:
  std::vector<std::string> patterns_;
  Function ignores_;
};

}  // namespace composer
