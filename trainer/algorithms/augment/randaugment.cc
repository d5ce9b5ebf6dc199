// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/augment/randaugment.h"

#include <ATen/ATen.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "trainer/core/state.h"
#include "trainer/core/torch_status.h"
#include "trainer/data/images/image_tensor.h"
#include "trainer/data/prepared_dataset.h"

namespace composer {
namespace {

class RandAugmentTransform final : public SampleTransform {
 public:
  explicit RandAugmentTransform(const RandAugmentOptions& options) : options_(options) {}
  void Apply(Sample& sample, SampleRandom& random) const override {
    at::Tensor& image = ImageIn(sample, "randaugment");
    image = RandAugmentImage(
        image, DrawOperations(options_.severity, options_.depth, options_.augmentation_set, image.size(1),
                              image.size(2), [&](double low, double high) { return random.Uniform(low, high); }));
  }

 private:
  const RandAugmentOptions options_;
};

}  // namespace

absl::Status Validate(const RandAugmentOptions& options) {
  if (options.severity < 0 || options.severity > 10)
    return absl::InvalidArgumentError(absl::StrCat("severity: must be from 0 to 10, got ", options.severity));
  if (options.depth < 0)
    return absl::InvalidArgumentError(absl::StrCat("depth: must be at least 0, got ", options.depth));
  return absl::OkStatus();
}

std::vector<DrawnOperation> DrawOperations(int64_t severity, int64_t depth, AugmentationSet set, int64_t height,
                                           int64_t width, DrawUniform uniform) {
  std::vector<DrawnOperation> drawn;
  for (int64_t i = 0; i < depth; ++i) {
    const ImageOperation operation = DrawOperation(set, uniform);
    drawn.push_back(DrawStrength(operation, set, severity, height, width, uniform));
  }
  return drawn;
}

at::Tensor RandAugmentImage(const at::Tensor& image, const std::vector<DrawnOperation>& operations) {
  const ImageBytes bytes = BytesOfImage(image, "randaugment");
  if (operations.empty()) return image;
  Pixels pixels = Apply(operations[0], bytes.view);
  for (size_t i = 1; i < operations.size(); ++i) pixels = Apply(operations[i], pixels.view());
  return TensorOfImage(std::move(pixels));
}

SampleTransformPtr MakeRandAugment(const RandAugmentOptions& options) {
  ThrowIfError(Validate(options));
  return std::make_shared<const RandAugmentTransform>(options);
}

absl::Status ImageAlgorithm::Apply(Event /*event*/, State& state, Logger& /*logger*/) {
  const auto* data = dynamic_cast<const PreparedDataset*>(&state.train_dataloader->dataset());
  if (data == nullptr)
    return absl::InvalidArgumentError(absl::StrCat(
        name_,
        ": it changes images of bytes, one by one, as image_folder, webdataset, mnist, cifar10 and streaming "
        "with decode_image give them; the training data comes as whole batches"));
  data->AddImageTransform(name_, transform_);
  return absl::OkStatus();
}

}  // namespace composer
