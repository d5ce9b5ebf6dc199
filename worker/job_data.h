// Datasets by name: fashion_mnist, text_bytes, gaussian_classification.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "config/config_map.h"
#include "trainer/data/dataset.h"

namespace composer {

using DatasetFactory = std::function<absl::StatusOr<std::shared_ptr<const Dataset>>()>;

// Reads the keys of the dataset that `name` chooses. Errors go to the reader; the factory, which reads the data, must not be called after one.
DatasetFactory ReadDataset(ConfigMap config);

}  // namespace composer
