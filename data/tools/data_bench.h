// `composer data bench`: how fast the shards of a folder are read, in the order of training.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "data/order/order.h"

namespace composer {

struct DataBenchOptions {
  OrderConfig order;            // without streams
  int64_t samples = 1'000'000;  // at most so many are read, twice: the second time they are cached
};

// Returns some lines: time of opening, of the first batch, and CPU nanoseconds, samples and MB a second of reading.
absl::StatusOr<std::string> BenchMds(const std::string& folder, DataBenchOptions options);

}  // namespace composer
