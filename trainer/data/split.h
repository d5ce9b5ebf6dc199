// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace composer {

// Selects a part of a dataset.
enum class DataSplit { kTrain, kEval };

}  // namespace composer
