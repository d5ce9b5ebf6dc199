// SPDX-License-Identifier: Apache-2.0
#include <torch/types.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "data/text/gzip_file.h"
#include "trainer/data/fashion_mnist.h"
#include "trainer/data/images/image_sources.h"

namespace composer {
namespace {

constexpr int64_t kMaxPictureFile = int64_t{1} << 32;
constexpr int64_t kCifarBytes = 3 * 32 * 32;

class BinaryPictures final : public SampleSource {
 public:
  BinaryPictures(std::string images, std::string labels, std::vector<int64_t> shape)
      : images_(std::move(images)), labels_(std::move(labels)), shape_(std::move(shape)) {}
  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  Sample Get(int64_t index) const override {
    Sample sample;
    at::Tensor image = torch::empty(shape_, at::kByte);
    std::memcpy(image.mutable_data_ptr(), images_.data() + index * image.numel(), static_cast<size_t>(image.numel()));
    sample.tensors["inputs"] = image;
    sample.tensors["targets"] = torch::tensor(int64_t{static_cast<uint8_t>(labels_[static_cast<size_t>(index)])});
    return sample;
  }

 private:
  const std::string images_, labels_;
  const std::vector<int64_t> shape_;  // [C, H, W]
};

absl::StatusOr<IdxArray> ReadIdxFile(const std::string& folder, absl::string_view name) {
  const std::string plain = JoinPath(folder, name), packed = absl::StrCat(plain, ".gz");
  const std::string& path = PathExists(plain) ? plain : packed;
  ASSIGN_OR_RETURN(std::string content, ReadMaybeGzipFile(path, kMaxPictureFile));
  return ParseIdx(std::move(content), path);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const SampleSource>> OpenMnist(const std::string& folder, DataSplit split) {
  const std::string prefix = split == DataSplit::kTrain ? "train" : "t10k";
  ASSIGN_OR_RETURN(IdxArray images, ReadIdxFile(folder, absl::StrCat(prefix, "-images-idx3-ubyte")));
  ASSIGN_OR_RETURN(IdxArray labels, ReadIdxFile(folder, absl::StrCat(prefix, "-labels-idx1-ubyte")));
  const std::vector<int64_t>& shape = images.shape;
  if (shape.size() != 3 || labels.shape.size() != 1 || labels.shape[0] != shape[0] || images.bytes.empty())
    return absl::InvalidArgumentError(absl::StrCat(folder, ", ", prefix, ": images of ", absl::StrJoin(shape, " x "),
                                                   " and labels of ", absl::StrJoin(labels.shape, " x "),
                                                   "; they need N x H x W and N"));
  return std::make_shared<const BinaryPictures>(std::move(images.bytes), std::move(labels.bytes),
                                                std::vector<int64_t>{1, shape[1], shape[2]});
}

absl::StatusOr<std::shared_ptr<const SampleSource>> OpenCifar10(const std::string& folder, DataSplit split) {
  std::vector<std::string> names = {"test_batch.bin"};
  if (split == DataSplit::kTrain)
    names = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"};
  std::string images, labels;
  for (const std::string& name : names) {
    const std::string path = JoinPath(folder, name);
    ASSIGN_OR_RETURN(const std::string content, ReadFile(path, kMaxPictureFile));
    if (content.empty() || content.size() % (1 + kCifarBytes) != 0)
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": ", content.size(), " bytes; it needs ", 1 + kCifarBytes, " for each image"));
    for (size_t at = 0; at < content.size(); at += 1 + kCifarBytes) {
      if (static_cast<uint8_t>(content[at]) > 9)
        return absl::InvalidArgumentError(absl::StrCat(path, ", at byte ", at, ": class ",
                                                       static_cast<int>(static_cast<uint8_t>(content[at])),
                                                       "; CIFAR-10 has 0 to 9"));
      labels += content[at];
      images.append(content, at + 1, kCifarBytes);
    }
  }
  return std::make_shared<const BinaryPictures>(std::move(images), std::move(labels), std::vector<int64_t>{3, 32, 32});
}

}  // namespace composer
