// SPDX-License-Identifier: Apache-2.0
#include <torch/types.h>

#include <utility>

#include "base/file.h"
#include "base/status_macros.h"
#include "data/image/image_files.h"
#include "trainer/data/images/image_sources.h"

namespace composer {
namespace {

class ImageFolder final : public SampleSource {
 public:
  explicit ImageFolder(std::vector<ImageFile> files) : files_(std::move(files)) {}
  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  Sample Get(int64_t index) const override {
    const ImageFile& file = files_[static_cast<size_t>(index)];
    Sample sample;
    const std::string path = JoinPath(file.folder, file.name);
    absl::StatusOr<std::string> bytes = ReadFile(path, kMaxImageFile);
    TORCH_CHECK_VALUE(bytes.ok(), std::string(bytes.status().message()));
    sample.texts["image"] = *std::move(bytes);
    sample.texts["path"] = path;
    sample.tensors["targets"] = torch::tensor(file.target);
    return sample;
  }

 private:
  const std::vector<ImageFile> files_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const SampleSource>> OpenImageFolder(const ImageFolderOptions& options) {
  ASSIGN_OR_RETURN(std::vector<ImageFile> files, ListImageFolder(options.path, options.classes));
  return std::make_shared<const ImageFolder>(std::move(files));
}

}  // namespace composer
