// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/synthetic.h"

#include <torch/types.h>

#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "absl/strings/str_cat.h"
#include "trainer/core/random.h"

namespace composer {
namespace {

constexpr uint64_t kCentreStream = ~uint64_t{0};

// Returns standard normal number `index` of a stream, by the Box-Muller transform.
double Normal(uint64_t seed, uint64_t stream, uint64_t index) {
  const auto uniform = [](uint64_t bits) { return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53; };
  const double u = uniform(MixSeed(seed, stream, 2 * index)), v = uniform(MixSeed(seed, stream, 2 * index + 1));
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

class GaussianClassification final : public Dataset {
 public:
  explicit GaussianClassification(const GaussianClassificationOptions& options)
      : size_(options.size), features_(options.features), classes_(options.classes) {
    std::vector<double> centres;
    for (int64_t i = 0; i < classes_ * features_; ++i) {
      centres.push_back(options.separation * Normal(options.seed, kCentreStream, static_cast<uint64_t>(i)));
    }
    const uint64_t noise_seed = MixSeed(options.seed, options.sample_seed, 0);
    values_.reserve(static_cast<size_t>(size_ * features_));
    for (int64_t i = 0; i < size_; ++i) {
      const double* centre = centres.data() + i % classes_ * features_;
      for (int64_t j = 0; j < features_; ++j) {
        const double noise = Normal(noise_seed, static_cast<uint64_t>(i), static_cast<uint64_t>(j));
        values_.push_back(static_cast<float>(centre[j] + noise));
      }
    }
  }

  int64_t size() const override { return size_; }

  Batch Load(absl::Span<const int64_t> indices) const override {
    Batch batch;
    batch.num_samples = static_cast<int64_t>(indices.size());
    batch.inputs = torch::empty({batch.num_samples, features_});
    batch.targets = torch::empty({batch.num_samples}, torch::kInt64);
    float* out = batch.inputs.mutable_data_ptr<float>();
    int64_t* target = batch.targets.mutable_data_ptr<int64_t>();
    for (const int64_t index : indices) {
      TORCH_CHECK_INDEX(0 <= index && index < size_, "sample ", index, " of ", size_);
      std::memcpy(out, values_.data() + index * features_, static_cast<size_t>(features_) * sizeof(float));
      out += features_;
      *target++ = index % classes_;
    }
    return batch;
  }

 private:
  int64_t size_;
  int64_t features_;
  int64_t classes_;
  std::vector<float> values_;  // [size, features]
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> MakeGaussianClassification(
    const GaussianClassificationOptions& options) {
  constexpr int64_t kMaxValues = int64_t{1} << 30;
  const auto check = [](absl::string_view field, int64_t value) {
    if (value >= 1 && value <= kMaxValues) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(field, ": must be from 1 to ", kMaxValues, ", got ", value));
  };
  absl::Status status = check("size", options.size);
  status.Update(check("features", options.features));
  status.Update(check("classes", options.classes));
  if (!status.ok()) return status;
  if (options.size > kMaxValues / options.features || options.classes > kMaxValues / options.features) {
    return absl::InvalidArgumentError(absl::StrCat("size: ", options.size, " samples of ", options.features,
                                                   " features are more than ", kMaxValues, " values"));
  }
  return std::make_shared<const GaussianClassification>(options);
}

}  // namespace composer
