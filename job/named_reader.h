// Looks up a name of a job's YAML in the built-in table, then among the plugins'. An unknown name is an error that
// lists both.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "config/config_map.h"
#include "config/name_advice.h"
#include "job/plugin/plugin_registry.h"
#include "trainer/core/torch_status.h"

namespace composer {

// A row of a built-in table.
template <typename Factory>
struct NamedReader {
  const char* name;
  Factory (*read)(ConfigMap config);
};

template <typename Rows>
std::vector<std::string> NamesOf(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}

// Returns UnknownName (config/name_advice.h) for the built-in names and the plugins'.
template <typename Factory>
std::string UnknownNameOf(const std::string& name, std::vector<std::string> built_in,
                          const PluginTable<Factory>& plugins) {
  for (const auto& [key, entry] : plugins) built_in.push_back(key);
  return UnknownName(name, built_in);
}

// Wraps a plugin's factory: an exception or a missing result becomes an error with the thing's name and the plugin's.
// Throws StatusError.
template <typename Made, typename... Args>
std::function<Made(Args...)> Named(std::string who, std::function<Made(Args...)> make) {
  return [who = std::move(who), make = std::move(make)](Args... args) -> Made {
    Made made{};
    ThrowIfError(Annotate(CatchTorch([&] { made = make(std::forward<Args>(args)...); }), who));
    if constexpr (requires { made.ok(); }) {
      if (!made.ok()) return Annotate(made.status(), who);
      if (*made == nullptr) return absl::InvalidArgumentError(who + ": its factory gave nothing");
    } else if (made == nullptr) {
      throw StatusError(absl::InvalidArgumentError(who + ": its factory gave nothing"));
    }
    return made;
  };
}

// Runs the plugin's reader on these keys; a thrown error goes to the file's reader.
template <typename Factory>
Factory ReadWithPlugin(const std::string& name, const PluginEntry<Factory>& entry, ConfigMap config) {
  PluginConfig keys(config);
  Factory factory;
  const std::string who = absl::StrCat("`", name, "` of plugin ", entry.plugin);
  absl::Status status = CatchTorch([&] { factory = entry.read(keys); });
  if (status.ok() && !factory) status = absl::InvalidArgumentError("its reader gave no factory");
  if (!status.ok()) config.Reject("", Annotate(status, who).message());
  return status.ok() ? Named(who, std::move(factory)) : nullptr;
}

// Returns the factory of config's `name`, which is required; null after an error. `other_names` are built-in names that
// are not in the table, for the message.
template <typename Factory>
Factory ReadNamed(ConfigMap config, absl::Span<const NamedReader<Factory>> built_in,
                  const PluginTable<Factory>& plugins, std::vector<std::string> other_names = {}) {
  const std::string name = config.String("name");
  if (name.empty() && !config.Has("name")) return nullptr;
  for (const NamedReader<Factory>& row : built_in) {
    if (name == row.name) return row.read(config);
  }
  if (const auto it = plugins.find(name); it != plugins.end()) return ReadWithPlugin(name, it->second, config);
  for (const NamedReader<Factory>& row : built_in) other_names.emplace_back(row.name);
  config.Reject("name", UnknownNameOf(name, other_names, plugins));
  config.IgnoreRest();
  return nullptr;
}

// Returns the factories of root.<key>, a map whose keys are names, in the order written; leaves out those with errors.
template <typename Factory>
std::vector<Factory> ReadNamedMaps(ConfigMap root, absl::string_view key,
                                   absl::Span<const NamedReader<Factory>> built_in,
                                   const PluginTable<Factory>& plugins) {
  std::vector<Factory> factories;
  for (ConfigMap::Named& entry : root.NamedMaps(key)) {
    const auto row =
        std::find_if(built_in.begin(), built_in.end(), [&](const auto& r) { return entry.name == r.name; });
    const auto plugin = plugins.find(entry.name);
    if (row != built_in.end()) {
      factories.push_back(row->read(entry.map));
    } else if (plugin != plugins.end()) {
      factories.push_back(ReadWithPlugin(entry.name, plugin->second, entry.map));
    } else {
      entry.map.Reject("", UnknownNameOf(entry.name, NamesOf(built_in), plugins));
      entry.map.IgnoreRest();
    }
  }
  return factories;
}

}  // namespace composer
