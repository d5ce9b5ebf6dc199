// A folder with a folder of images for each class, as torchvision's ImageFolder has it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace composer {

inline constexpr int64_t kMaxImageFile = int64_t{1} << 30;  // bytes; more are not read

struct ImageFile {
  std::string folder, name;
  int64_t target = 0;  // the number of its class
};

// Returns the images (.jpg, .jpeg, .png) at any depth of the folders in `root`, by class, folder and name, as bytes.
// Classes are the folders' names, sorted, or the lines of `classes_file` if it is not "". kInvalidArgument names a
// class without an image, or one that the file of classes lacks.
absl::StatusOr<std::vector<ImageFile>> ListImageFolder(const std::string& root, const std::string& classes_file = "");

}  // namespace composer
