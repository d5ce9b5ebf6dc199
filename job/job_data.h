// The data of a job: `train_dataloader` and `eval_dataloader`: data sets and sources by name, and what is made of their
// samples: transforms, packing, collation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/config_map.h"
#include "job/plugin/plugin_registry.h"

namespace composer {

// Opens the data. Throws what LibTorch throws for arguments that cannot work.
using DataOpener = std::function<absl::StatusOr<std::shared_ptr<const Dataset>>(const DataContext&)>;

// These return the built-in names.
std::vector<std::string> DatasetNames();  // of data sets and sources
std::vector<std::string> TransformNames();
std::vector<std::string> CollatorNames();
std::vector<std::string> OrderNames();

// Reads the keys of the data that `name` chooses, and `transforms`, `pack` and `collate`. Errors go to the reader;
// after one, the opener must not be called. `shuffle`: of documents that are packed.
DataOpener ReadData(ConfigMap config, bool shuffle, const PluginTables& plugins);

// Reads config.order. Empty if it is not given.
OrderFactory ReadOrder(ConfigMap config, const PluginTables& plugins);

// Returns `open`, but places that begin with the scheme of a plugin's store go to it. Keeps the registry.
StoreOpener WithPluginStores(std::shared_ptr<const PluginRegistry> plugins, StoreOpener open);

}  // namespace composer
