// SPDX-License-Identifier: Apache-2.0
#include "job/job_checkpoints.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/name_template.h"
#include "job/checkpoint_names.h"
#include "job/plugin/job_time.h"
#include "trainer/callbacks/stops/monitored_metric.h"
#include "trainer/resume/load_checkpoint.h"

namespace composer {
namespace {

int ReadKept(ConfigMap& config, absl::string_view key) {
  const auto kept = static_cast<int>(config.Int(key, -1, {.min = -1, .max = 1 << 20}));
  if (kept == 0) config.Reject(key, "must be at least 1, or -1 to keep all");
  return kept;
}

SaveOverlap ReadOverlap(ConfigMap& config, absl::string_view key) {
  return config.Choice(key, {"wait", "skip"}, "wait") == "skip" ? SaveOverlap::kSkip : SaveOverlap::kWait;
}

struct Template {
  const char* key;
  std::string text;
};

// Applies save_filename and save_latest_filename, or a saver's filename and latest_filename.
void SetNames(ConfigMap& config, const Template& name, const Template& latest, const PlaceholderValues& values,
              SaveOptions& save) {
  const auto names = NamesOfSaveFilename(name.text);
  if (!names.ok()) return config.Reject(name.key, names.status().message());
  const auto latest_key = LatestKeyOf(latest.text, names->folder);
  if (!latest_key.ok()) return config.Reject(latest.key, latest_key.status().message());
  if (!latest_key->empty() && names->link == *latest_key)
    return config.Reject(name.key, "is the name of the file that names the newest checkpoint");
  save.save_filename = names->link;
  const std::string filled = FillTemplate(names->folder, values);
  if (!filled.empty()) save.save_folder = JoinPath(save.save_folder, filled);
  save.save_latest = *latest_key;
}

std::optional<SaveTopK> ReadTopK(ConfigMap config) {
  if (!config.exists()) return std::nullopt;
  SaveTopK top;
  top.monitor = config.String("monitor");
  top.k = static_cast<int>(config.Int("k", 1, {.min = 1, .max = 1 << 20}));
  const std::string mode = config.Choice("mode", {"auto", "min", "max"}, "auto");
  top.less_is_better = mode == "auto" ? LessIsBetterByName(top.monitor) : mode == "min";
  if (!top.monitor.empty() && !absl::StrContains(top.monitor, "/"))
    config.Reject("monitor", absl::StrCat("say whose: metrics/eval/", top.monitor));
  return top;
}

SaveOptions ReadSaver(ConfigMap config, const PlaceholderValues& values) {
  SaveOptions save;
  save.save_folder = FillTemplate(config.String("folder"), values);
  if (!IsRemotePlace(save.save_folder)) save.save_folder = AbsolutePath(save.save_folder);
  save.save_interval = ReadTime(config, "save_interval", "1ep");
  save.save_num_checkpoints_to_keep = ReadKept(config, "num_checkpoints_to_keep");
  save.save_overwrite = config.Bool("overwrite", false);
  save.save_weights_only = config.Bool("weights_only", false);
  save.save_async = config.Bool("async", true);
  save.save_overlap = ReadOverlap(config, "overlap");
  SetNames(config, {"filename", config.String("filename", "ep{epoch}-ba{batch}")},
           {"latest_filename", config.String("latest_filename", "latest")}, values, save);
  save.save_metrics = config.Bool("save_metrics", false);
  save.save_top_k = ReadTopK(config.Map("top_k"));
  save.save_ignore_keys = config.StringList("ignore_keys", {});
  save.autoresume = false;
  return save;
}

// Reads any event by its name; Composer's default is before_load.
Event ReadEvent(ConfigMap& config, absl::string_view key, Event fallback) {
  std::vector<absl::string_view> names;
  for (int i = 0; i < kNumEvents; ++i) names.push_back(EventName(static_cast<Event>(i)));
  const std::string chosen = config.Choice(key, names, EventName(fallback));
  const auto at = std::find(names.begin(), names.end(), chosen) - names.begin();
  return at < kNumEvents ? static_cast<Event>(at) : fallback;
}

}  // namespace

SaveOptions ReadSaving(ConfigMap& root, const std::string& run_name, const std::string& run_folder) {
  SaveOptions save;
  save.save_folder =
      FillTemplate(root.String("save_folder", JoinPath(run_folder, "checkpoints")), {{"run_name", run_name}});
  save.save_interval = ReadTime(root, "save_interval", "1ep");
  save.save_num_checkpoints_to_keep = ReadKept(root, "save_num_checkpoints_to_keep");
  save.autoresume = root.Bool("autoresume", true);
  save.save_overwrite = root.Bool("save_overwrite", false);
  save.save_weights_only = root.Bool("save_weights_only", false);
  save.save_async = root.Bool("save_async", true);
  save.save_overlap = ReadOverlap(root, "save_overlap");
  SetNames(root, {"save_filename", root.String("save_filename", "ep{epoch}-ba{batch}")},
           {"save_latest_filename", root.String("save_latest_filename", "latest")}, {{"run_name", run_name}}, save);
  save.save_ignore_keys = root.StringList("save_ignore_keys", {});
  save.save_metrics = root.Bool("save_metrics", false);
  save.save_top_k = ReadTopK(root.Map("save_top_k"));
  if (save.save_weights_only && save.autoresume)
    root.Reject("save_weights_only", "no run can go on from weights alone; set autoresume: false with it");
  return save;
}

LoadOptions ReadLoading(ConfigMap& root) {
  LoadOptions load;
  load.load_path = root.String("load_path", "");
  load.load_weights_only = root.Bool("load_weights_only", false);
  load.load_strict_model_weights = root.Bool("load_strict_model_weights", true);
  load.load_ignore_keys = root.StringList("load_ignore_keys", {});
  load.load_exclude_algorithms = root.StringList("load_exclude_algorithms", {});
  return load;
}

std::vector<SaveOptions> ReadCheckpointSavers(ConfigMap& root, const std::string& run_name) {
  std::vector<SaveOptions> savers;
  for (ConfigMap::Named& entry : root.NamedMaps("callbacks")) {
    if (entry.name == "checkpoint_saver") savers.push_back(ReadSaver(entry.map, {{"run_name", run_name}}));
  }
  return savers;
}

CallbackFactory ReadLoadCheckpoint(ConfigMap config) {
  LoadOptions load;
  load.load_path = config.String("load_path");
  load.load_weights_only = config.Bool("load_weights_only", false);
  load.load_strict_model_weights = config.Bool("strict_model_weights", true);
  load.load_ignore_keys = config.StringList("ignore_keys", {});
  load.load_exclude_algorithms = config.StringList("exclude_algorithms", {});
  const Event when = ReadEvent(config, "event", Event::kBeforeLoad);
  return [=](const JobPlace& place, const JobFacts&) {
    LoadOptions own = load;
    own.open_store = place.open_store;
    return std::make_unique<LoadCheckpointCallback>(own, when);
  };
}

}  // namespace composer
