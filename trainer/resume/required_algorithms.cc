// SPDX-License-Identifier: Apache-2.0
#include "trainer/resume/required_algorithms.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/format/json.h"
#include "base/json_members.h"
#include "base/status_macros.h"
#include "checkpoint/folder/verify.h"
#include "checkpoint/load/reader.h"

namespace composer {
namespace {

using Json = nlohmann::ordered_json;

struct Required {
  std::string name;
  AlgorithmOrigin origin;
};

absl::StatusOr<std::vector<Required>> Parse(const CheckpointRequirements& required) {
  std::vector<Required> list;
  if (required.json.empty()) return list;
  const Json json = ParseOrderedJson(required.json);
  if (!json.is_array())
    return absl::DataLossError(absl::StrCat(required.location, ": ", kRequiredAlgorithmsKey, " is not a list"));
  for (const Json& item : json) {
    Required& read = list.emplace_back();
    if (!item.is_object() || !TakeMember(item, "name", read.name) || !TakeMember(item, "key", read.origin.key) ||
        !TakeMember(item, "plugin", read.origin.plugin))
      return absl::DataLossError(
          absl::StrCat(required.location, ": ", kRequiredAlgorithmsKey, " has an entry ", item.dump().substr(0, 80)));
    read.origin.arguments = item.value("arguments", Json()).dump();
  }
  return list;
}

absl::Status CannotMake(const Required& required, const std::string& location, absl::string_view why) {
  const std::string plugin =
      required.origin.plugin.empty() ? "" : absl::StrCat(" of plugin ", required.origin.plugin, " (see `plugins`)");
  return absl::InvalidArgumentError(absl::StrCat("algorithms: checkpoint ", location, " needs ", required.name, plugin,
                                                 ", which changed its model, ", "and this run does not have it: ", why,
                                                 "; add it, or leave it out by load_exclude_algorithms: [",
                                                 required.name, "]"));
}

absl::StatusOr<std::unique_ptr<Algorithm>> Make(const Required& required, const std::string& location,
                                                const TrainerOptions& options) {
  if (options.make_algorithm == nullptr || required.origin.key.empty())
    return CannotMake(required, location, "it was not made from a job's file, so it is not made anew");
  absl::StatusOr<std::unique_ptr<Algorithm>> made = options.make_algorithm(required.origin);
  if (!made.ok()) return CannotMake(required, location, made.status().message());
  (*made)->SetOrigin(required.origin);
  return made;
}

}  // namespace

std::string RequiredAlgorithms(const std::vector<std::unique_ptr<Algorithm>>& algorithms) {
  Json list = Json::array();
  for (const auto& algorithm : algorithms) {
    if (!algorithm->required_on_load()) continue;
    const AlgorithmOrigin& origin = algorithm->origin();
    list.push_back({{"name", algorithm->name()},
                    {"key", origin.key},
                    {"arguments", ParseOrderedJson(origin.arguments.empty() ? "null" : origin.arguments)},
                    {"plugin", origin.plugin}});
  }
  return list.empty() ? "" : list.dump();
}

absl::StatusOr<CheckpointRequirements> ReadRequirements(ObjectStore& store, const std::string& checkpoint,
                                                        RankExchange& exchange) {
  absl::StatusOr<std::string> json = "";
  if (exchange.rank() == 0) {
    const absl::StatusOr<Manifest> manifest = ReadManifest(store, checkpoint);
    if (manifest.ok()) {
      const auto found = manifest->small.find(kRequiredAlgorithmsKey);
      if (found != manifest->small.end()) json = found->second;
    } else {
      json = manifest.status();
    }
  }
  ASSIGN_OR_RETURN(json, exchange.Broadcast(std::move(json)));
  return CheckpointRequirements{store.Location(checkpoint), *std::move(json)};
}

absl::StatusOr<std::vector<std::string>> AddRequired(const CheckpointRequirements& required,
                                                     const std::vector<std::string>& exclude, TrainerOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<Required> list, Parse(required));
  std::vector<std::unique_ptr<Algorithm>> added;
  std::vector<std::string> names;
  for (const Required& item : list) {
    const auto has_its_name = [&](const auto& algorithm) { return algorithm->name() == item.name; };
    const auto& own = options.algorithms;
    if (Matches(exclude, item.name) || std::any_of(own.begin(), own.end(), has_its_name)) continue;
    ASSIGN_OR_RETURN(added.emplace_back(), Make(item, required.location, options));
    names.push_back(item.name);
  }
  options.algorithms.insert(options.algorithms.begin(), std::make_move_iterator(added.begin()),
                            std::make_move_iterator(added.end()));
  return names;
}

}  // namespace composer
