// `composer checkpoint export --hf`: besides the weights, what transformers' from_pretrained needs of a model of one of
// its families.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/tools/weight_export.h"
#include "storage/object_store.h"

namespace composer {

// A checkpoint's small state has {"config": the text of config.json, "folder": where the model came from or ""} here,
// if its model is of such a family.
inline constexpr char kHuggingFaceKey[] = "hugging_face";
// Its names of the algorithms that changed the model (trainer/resume/required_algorithms.h).
inline constexpr char kChangedByKey[] = "required_algorithms";

struct HfExtras {
  std::string config_json;  // with `dtype` as exported
  std::string folder;       // "": unknown
};
// kFailedPrecondition: the checkpoint does not say what its model is, or algorithms other than LoRA have changed it.
absl::StatusOr<HfExtras> ReadHfExtras(const Manifest& manifest, const ExportOptions& options);

// Puts config.json and, if the folder is there, its tokenizer's files and generation_config.json into `into`; returns
// their keys. kAlreadyExists when a file exists and `overwrite` is not set.
absl::StatusOr<std::vector<std::string>> WriteHfExtras(const HfExtras& extras, ObjectStore& into, bool overwrite);

}  // namespace composer
