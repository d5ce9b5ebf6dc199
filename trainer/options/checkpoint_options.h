// Where and when a run saves checkpoints, and what it loads. Names and defaults are those of Composer's Trainer
// arguments (see trainer_options.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/time.h"
#include "checkpoint/format/ignored_keys.h"
#include "storage/file_system.h"
#include "storage/object_store.h"
#include "trainer/core/event.h"

namespace composer {

// SaveOverlap is what happens to a save that is due while the one before it is still being written.
enum class SaveOverlap { kWait, kSkip };

// A ResumePoint is a checkpoint that a run is about to resume from.
struct ResumePoint {
  std::string location;
  std::string saved_at;       // RFC 3339, UTC
  std::string configuration;  // SavedDataSettings::configuration as saved; "" in older checkpoints
};

// SaveTopK keeps the checkpoints at which a metric was best. One that was saved without the metric having been measured
// at that very batch is never among them; the newest checkpoint stays anyway, so that the run can resume.
struct SaveTopK {
  std::string monitor;  // "metrics/eval/MulticlassAccuracy", "metrics/train/…", "loss/train/total"
  int k = 1;
  bool less_is_better = false;
};

struct SaveOptions {
  std::string save_folder;  // a path, or a URL that open_store knows; "": no checkpoints
  // A function is asked at BATCH_CHECKPOINT, EPOCH_CHECKPOINT and ITERATION_CHECKPOINT; a batch is saved once.
  Interval save_interval = Time::Epochs(1);
  int save_num_checkpoints_to_keep = -1;  // -1: all
  bool autoresume = true;                 // start from the newest valid checkpoint of save_folder, if any
  bool save_overwrite = false;            // replace valid checkpoints of the same step that another run wrote
  bool save_weights_only = false;         // save model tensors only; no run can resume from it
  std::string save_latest = "latest";     // the file that holds the newest checkpoint's name, for people; "": none
  // Names a file below save_folder that leads to the checkpoint, by placeholders (saved_names.h): "step{batch}.pt"; "":
  // none.
  std::string save_filename;
  std::optional<SaveTopK> save_top_k;  // with save_num_checkpoints_to_keep, the newest stay, too
  bool save_metrics = false;           // save what metrics have summed up, too (resume/saved_metrics.h)
  bool save_async = true;              // copy the state, then train on while it is written
  SaveOverlap save_overlap = SaveOverlap::kWait;
  IgnoredKeys save_ignore_keys;  // of tensor names and small keys; see saved_state.h
  // If true, a failed save is logged as a warning and ends these saves instead of the run; the supervision is not
  // notified, and the newest checkpoint is chosen without reading it (complete_choice.h). For storage that may
  // disappear at any time.
  bool best_effort = false;
  // Called on every rank with the checkpoint to resume from, before anything of it is loaded; an error ends the run.
  // May be empty.
  std::function<absl::Status(const ResumePoint&)> on_resume;
  FileSystem* files = nullptr;  // for a local save_folder; null: the machine's. Must outlive the trainer
  StoreOpener open_store;       // for a save_folder that is a URL; empty: paths only
};

// LoadOptions say where the initial weights come from when there is nothing to resume.
struct LoadOptions {
  std::string load_path;           // a checkpoint, a folder of them or a run's folder (its newest valid one); "": none
  bool load_weights_only = false;  // load only the model's tensors; the run begins at batch 0
  bool load_strict_model_weights = true;             // false: missing and unexpected tensors of the model are ignored
  IgnoredKeys load_ignore_keys;                      // "model/head.*", "optimizer/*", "timestamp"
  std::vector<std::string> load_exclude_algorithms;  // algorithms whose state is not loaded and that
                                                     // are not added because the checkpoint requires them
  StoreOpener open_store;                            // for a load_path that is a URL; empty: paths only
};

}  // namespace composer
