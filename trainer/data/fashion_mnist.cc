// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/fashion_mnist.h"

#include <torch/types.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "data/text/gzip_file.h"

namespace composer {
namespace {

constexpr int64_t kSide = 28;
constexpr int64_t kPixels = kSide * kSide;
constexpr int kClasses = 10;
constexpr int64_t kMaxFileBytes = 1 << 30;
// (pixel / 255 - mean) / deviation is computed as one multiplication and one addition.
constexpr float kMean = 0.2860f, kDeviation = 0.3530f;
constexpr float kScale = 1 / (255 * kDeviation), kShift = -kMean / kDeviation;

class FashionMnist final : public Dataset {
 public:
  FashionMnist(std::string images, std::string labels) : images_(std::move(images)), labels_(std::move(labels)) {}

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }

  Batch Load(absl::Span<const int64_t> indices) const override {
    Batch batch;
    batch.num_samples = static_cast<int64_t>(indices.size());
    batch.inputs = torch::empty({batch.num_samples, 1, kSide, kSide});
    batch.targets = torch::empty({batch.num_samples}, torch::kInt64);
    float* out = batch.inputs.mutable_data_ptr<float>();
    int64_t* target = batch.targets.mutable_data_ptr<int64_t>();
    for (const int64_t index : indices) {
      TORCH_CHECK_INDEX(0 <= index && index < size(), "sample ", index, " of ", size());
      const auto* pixels = reinterpret_cast<const uint8_t*>(images_.data()) + index * kPixels;
      for (int64_t i = 0; i < kPixels; ++i) out[i] = static_cast<float>(pixels[i]) * kScale + kShift;
      out += kPixels;
      *target++ = static_cast<uint8_t>(labels_[index]);
    }
    return batch;
  }

 private:
  std::string images_;  // [N, 28, 28]
  std::string labels_;  // [N], each < 10
};

int64_t BigEndian32(absl::string_view bytes) {
  int64_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

absl::StatusOr<IdxArray> ReadIdx(const std::string& folder, absl::string_view name) {
  const std::string packed = JoinPath(folder, absl::StrCat(name, ".gz")), plain = JoinPath(folder, name);
  const std::string& path = PathExists(plain) ? plain : packed;  // reading the plain file is 20 times faster
  absl::StatusOr<std::string> content = ReadMaybeGzipFile(path, kMaxFileBytes);
  if (absl::IsNotFound(content.status())) {
    return absl::NotFoundError(absl::StrCat(content.status().message(),
                                            "; install Debian's package dataset-fashion-mnist, or name the folder "
                                            "that has the four idx files"));
  }
  RETURN_IF_ERROR(content.status());
  return ParseIdx(*std::move(content), path);
}

absl::Status CheckLabels(const std::string& labels, absl::string_view source) {
  for (size_t i = 0; i < labels.size(); ++i) {
    const int label = static_cast<uint8_t>(labels[i]);
    if (label >= kClasses) {
      return absl::InvalidArgumentError(absl::StrCat(source, ": label ", i, " is ", label, "; labels are 0 to 9"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<IdxArray> ParseIdx(std::string content, absl::string_view source) {
  const auto invalid = [&](auto... what) { return absl::InvalidArgumentError(absl::StrCat(source, ": ", what...)); };
  if (content.size() < 4) return invalid("too short for an IDX file (", content.size(), " bytes)");
  const int64_t magic = BigEndian32(content);
  const int64_t dimensions = magic & 0xff;
  if (magic >> 8 != 0x08) return invalid("not an IDX file of unsigned bytes (magic number ", magic, ")");
  if (dimensions < 1 || dimensions > 4) return invalid("an IDX file with ", dimensions, " dimensions; 1 to 4 are read");
  const size_t header = 4 + 4 * static_cast<size_t>(dimensions);
  if (content.size() < header) return invalid("cut off within the header");
  IdxArray array;
  int64_t expected = 1;
  for (int64_t i = 0; i < dimensions; ++i) {
    array.shape.push_back(BigEndian32(absl::string_view(content).substr(4 + 4 * i)));
    if (__builtin_mul_overflow(expected, array.shape.back(), &expected)) return invalid("sizes overflow");
  }
  const int64_t present = static_cast<int64_t>(content.size() - header);
  if (present != expected) {
    return invalid("has ", present, " bytes of data, its sizes ", absl::StrJoin(array.shape, "x"), " need ", expected);
  }
  content.erase(0, header);
  array.bytes = std::move(content);
  return array;
}

absl::StatusOr<std::shared_ptr<const Dataset>> LoadFashionMnist(const std::string& folder, DataSplit split) {
  const std::string prefix = split == DataSplit::kTrain ? "train" : "t10k";
  ASSIGN_OR_RETURN(IdxArray images, ReadIdx(folder, absl::StrCat(prefix, "-images-idx3-ubyte")));
  ASSIGN_OR_RETURN(IdxArray labels, ReadIdx(folder, absl::StrCat(prefix, "-labels-idx1-ubyte")));
  const std::string where = absl::StrCat(folder, ", ", prefix, " split");
  if (images.shape.size() != 3 || images.shape[1] != kSide || images.shape[2] != kSide) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": images have the sizes ", absl::StrJoin(images.shape, "x"), ", expected Nx28x28"));
  }
  if (labels.shape.size() != 1 || labels.shape[0] != images.shape[0]) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": ", images.shape[0], " images but ", absl::StrJoin(labels.shape, "x"), " labels"));
  }
  RETURN_IF_ERROR(CheckLabels(labels.bytes, where));
  return std::make_shared<const FashionMnist>(std::move(images.bytes), std::move(labels.bytes));
}

}  // namespace composer
