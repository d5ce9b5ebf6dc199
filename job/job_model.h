// Models by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/config_map.h"
#include "job/plugin/plugin_registry.h"
#include "trainer/core/communicator.h"
#include "trainer/options/layer_plan.h"

namespace composer {

// Returns the names of the built-in models.
std::vector<std::string> ModelNames();

// Returns, for tensor parallelism, this rank's part of the model that ReadModel's factory made from the same keys.
// ReadModelSplitter reports an error when the model cannot be split.
using ModelSplitter = std::function<std::shared_ptr<Model>(const Model& whole, Communicator& group)>;
ModelSplitter ReadModelSplitter(ConfigMap config);

// `model: {name: hf, …}`, a model of Hugging Face's families. Reads its config.json, and returns the plan by which
// tensor parallelism splits it; `json` as for ReadModel. An error goes to the reader.
inline constexpr char kHfModel[] = "hf";
LayerPlan ReadHfLayerPlan(ConfigMap config, const std::string& json);

// Returns whether the model keeps attention within the documents of a row when batches have `sequence_id`
// (trainer/models/sequence_mask.h). Models of plugins get it and are trusted.
bool SeesSequences(ConfigMap config, const PluginTables& plugins, const std::string& json);

// Reads the keys of the model that `name` chooses; `json` are the same keys as JSON, and `tokenizer` is the job's,
// empty if it has none. Errors go to the reader; after one, the factory must not be called. It throws c10::ValueError
// or StatusError.
ModelFactory ReadModel(ConfigMap config, const PluginTables& plugins, const std::string& json,
                       const TokenizerFactory& tokenizer);

}  // namespace composer
