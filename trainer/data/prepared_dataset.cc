// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/prepared_dataset.h"

#include <c10/util/Exception.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "trainer/core/error_place.h"
#include "trainer/data/collators.h"

namespace composer {
namespace {

Batch Collate(const Preparation& preparation, std::vector<Sample> samples) {
  const int64_t count = static_cast<int64_t>(samples.size());
  Batch batch = preparation.collator->Collate(std::move(samples));
  if (batch.num_samples == 0) batch.num_samples = count;
  return batch;
}

class IndexedSamples final : public Dataset {
 public:
  IndexedSamples(std::shared_ptr<const SampleSource> source, Preparation preparation)
      : source_(std::move(source)), preparation_(std::move(preparation)) {}

  int64_t size() const override { return source_->size(); }
  Batch Load(absl::Span<const int64_t> indices) const override { return LoadIn(/*epoch=*/0, indices); }
  Batch LoadIn(int64_t epoch, absl::Span<const int64_t> indices) const override {
    std::vector<Sample> samples;
    for (const int64_t index : indices) samples.push_back(Get(epoch, index));
    if (!samples.empty()) return Collate(preparation_, std::move(samples));
    samples.push_back(Get(epoch, 0));  // for the shapes of a batch without samples
    return Collate(preparation_, std::move(samples)).Slice(0, 0);
  }
  void WillLoad(int64_t /*epoch*/, absl::Span<const int64_t> indices) const override { source_->WillLoad(indices); }
  std::shared_ptr<const SampleOrder> OwnOrder(const OrderRequest& request) const override {
    return source_->OwnOrder(request);
  }

 private:
  Sample Get(int64_t epoch, int64_t index) const {
    TORCH_CHECK_INDEX(0 <= index && index < source_->size(), "sample ", index, " of ", source_->size());
    Sample sample = source_->Get(index);
    sample.id = index;
    ApplyTransforms(preparation_.transforms, preparation_.seed, epoch, sample);
    return sample;
  }

  const std::shared_ptr<const SampleSource> source_;
  const Preparation preparation_;
};

class StreamedSamples final : public IterableDataset {
 public:
  StreamedSamples(std::shared_ptr<const SampleSource> source, Preparation preparation)
      : source_(std::move(source)), preparation_(std::move(preparation)) {}

  std::unique_ptr<SampleStream> Open(int64_t epoch) const override { return source_->Open(epoch); }
  Batch Collate(int64_t epoch, std::vector<Sample> samples) const override {
    for (Sample& sample : samples) ApplyTransforms(preparation_.transforms, preparation_.seed, epoch, sample);
    return composer::Collate(preparation_, std::move(samples));
  }

 private:
  const std::shared_ptr<const SampleSource> source_;
  const Preparation preparation_;
};

}  // namespace

void ApplyTransforms(const std::vector<std::shared_ptr<const SampleTransform>>& transforms, uint64_t seed,
                     int64_t epoch, Sample& sample) {
  const uint64_t of_sample = SeedOfSample(seed, epoch, sample.id);
  for (size_t i = 0; i < transforms.size(); ++i) {
    SampleRandom random(MixSeed(of_sample, i, 0));
    try {
      transforms[i]->Apply(sample, random);
    } catch (c10::Error& error) {
      error.add_context(absl::StrCat("sample ", sample.id, StackText(error)));
      throw;
    }
  }
}

std::shared_ptr<const Dataset> PrepareSamples(std::shared_ptr<const SampleSource> source, Preparation preparation) {
  if (preparation.collator == nullptr) preparation.collator = std::make_shared<const StackCollator>();
  if (source->size() == kUnknownSize)
    return std::make_shared<const StreamedSamples>(std::move(source), std::move(preparation));
  return std::make_shared<const IndexedSamples>(std::move(source), std::move(preparation));
}

}  // namespace composer
