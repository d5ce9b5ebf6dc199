// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/augment/augmix.h"

#include <ATen/ATen.h>

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "trainer/algorithms/augment/draws.h"
#include "trainer/core/torch_status.h"
#include "trainer/data/images/image_tensor.h"

namespace composer {
namespace {

class AugMixTransform final : public SampleTransform {
 public:
  explicit AugMixTransform(const AugMixOptions& options) : options_(options) {}
  void Apply(Sample& sample, SampleRandom& random) const override {
    at::Tensor& image = ImageIn(sample, "augmix");
    const std::vector<double> drawn = DrawDirichlet(options_.alpha, options_.width, random);
    AugMixWeights weights{{drawn.begin(), drawn.end()}, 0};
    weights.mixed = static_cast<float>(DrawDirichlet(options_.alpha, 2, random)[0]);
    const auto chains = DrawChains(options_, image.size(1), image.size(2),
                                   [&](double low, double high) { return random.Uniform(low, high); });
    image = AugMixImage(image, chains, weights);
  }

 private:
  const AugMixOptions options_;
};

}  // namespace

absl::Status Validate(const AugMixOptions& options) {
  const auto refuse = [](absl::string_view field, auto value, absl::string_view range) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": must be ", range, ", got ", value));
  };
  if (options.severity < 0 || options.severity > 10) return refuse("severity", options.severity, "from 0 to 10");
  if (options.width < 1) return refuse("width", options.width, "at least 1");
  if (!(options.alpha > 0 && std::isfinite(options.alpha))) return refuse("alpha", options.alpha, "above 0");
  return absl::OkStatus();
}

std::vector<std::vector<DrawnOperation>> DrawChains(const AugMixOptions& options, int64_t height, int64_t width,
                                                    DrawUniform uniform) {
  std::vector<std::vector<DrawnOperation>> chains;
  for (int64_t i = 0; i < options.width; ++i) {
    const int64_t depth = options.depth > 0 ? options.depth : static_cast<int64_t>(uniform(1, 4));
    chains.push_back(DrawOperations(options.severity, depth, options.augmentation_set, height, width, uniform));
  }
  return chains;
}

at::Tensor AugMixImage(const at::Tensor& image, const std::vector<std::vector<DrawnOperation>>& chains,
                       const AugMixWeights& weights) {
  TORCH_CHECK_VALUE(chains.size() == weights.chains.size(), "augmix: ", chains.size(), " chains, but ",
                    weights.chains.size(), " weights");
  const ImageBytes bytes = BytesOfImage(image, "augmix");
  const auto size = static_cast<size_t>(bytes.view.size());
  std::vector<float> sum(size);
  for (size_t i = 0; i < chains.size(); ++i) {
    Pixels changed(bytes.view);
    for (const DrawnOperation& operation : chains[i]) changed = Apply(operation, changed.view());
    for (size_t p = 0; p < size; ++p) sum[p] += weights.chains[i] * static_cast<float>(changed.bytes[p]);
  }
  Pixels mixed(bytes.view);
  const float rest = 1 - weights.mixed;
  for (size_t p = 0; p < size; ++p)
    mixed.bytes[p] = static_cast<uint8_t>(rest * static_cast<float>(mixed.bytes[p]) + weights.mixed * sum[p]);
  return TensorOfImage(std::move(mixed));
}

SampleTransformPtr MakeAugMix(const AugMixOptions& options) {
  ThrowIfError(Validate(options));
  return std::make_shared<const AugMixTransform>(options);
}

}  // namespace composer
