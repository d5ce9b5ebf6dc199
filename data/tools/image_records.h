// A folder of images by class, for `composer data write`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "data/tools/record_source.h"

namespace composer {

// The columns `image`, the bytes of a file (encoding jpeg or png, or bytes if the folder has both), and `label`, the
// number of its class. Errors as ListImageFolder's.
absl::StatusOr<std::unique_ptr<RecordSource>> OpenImageRecords(const std::string& folder);

}  // namespace composer
