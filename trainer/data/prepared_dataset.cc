// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/prepared_dataset.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "trainer/core/error_place.h"
#include "trainer/data/collators.h"
#include "trainer/data/transforms.h"

namespace composer {
namespace {

Batch Collate(const Preparation& preparation, std::vector<Sample> samples) {
  const int64_t count = static_cast<int64_t>(samples.size());
  Batch batch = preparation.collator->Collate(std::move(samples));
  if (batch.num_samples == 0) batch.num_samples = count;
  return batch;
}

// Added transforms draw as if they stood here in the list.
constexpr uint64_t kPlaceOfAdded = uint64_t{1} << 32;

struct PlacedTransform {
  std::shared_ptr<const SampleTransform> transform;
  uint64_t place = 0;
};

void ApplyPlaced(absl::Span<const PlacedTransform> transforms, uint64_t seed, int64_t epoch, Sample& sample) {
  const uint64_t of_sample = SeedOfSample(seed, epoch, sample.id);
  for (const PlacedTransform& placed : transforms) {
    SampleRandom random(MixSeed(of_sample, placed.place, 0));
    try {
      placed.transform->Apply(sample, random);
    } catch (c10::Error& error) {
      error.add_context(absl::StrCat("sample ", sample.id, StackText(error)));
      throw;
    }
  }
}

std::vector<PlacedTransform> InPlaces(const std::vector<std::shared_ptr<const SampleTransform>>& transforms) {
  std::vector<PlacedTransform> placed;
  for (const auto& transform : transforms) placed.push_back({transform, placed.size()});
  return placed;
}

// The transforms of a dataset, to which some may be added while others are applied.
class TransformList {
 public:
  explicit TransformList(const Preparation& preparation)
      : seed_(preparation.seed), list_(std::make_shared<const List>(InPlaces(preparation.transforms))) {}

  void Apply(int64_t epoch, Sample& sample) const { ApplyPlaced(*Current(), seed_, epoch, sample); }

  void Add(const std::string& name, std::shared_ptr<const SampleTransform> transform) {
    const absl::MutexLock lock(&mutex_);
    if (std::find(added_.begin(), added_.end(), name) != added_.end()) return;
    List list = *list_;
    const auto end = std::find_if(list.begin(), list.end(), [](const PlacedTransform& placed) {
      return dynamic_cast<const EndsImageBytes*>(placed.transform.get()) != nullptr;
    });
    list.insert(end, {std::move(transform), kPlaceOfAdded + added_.size()});
    added_.push_back(name);
    list_ = std::make_shared<const List>(std::move(list));
  }

 private:
  using List = std::vector<PlacedTransform>;
  std::shared_ptr<const List> Current() const {
    const absl::MutexLock lock(&mutex_);
    return list_;
  }

  const uint64_t seed_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<const List> list_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> added_ ABSL_GUARDED_BY(mutex_);
};

class IndexedSamples final : public Dataset, public PreparedDataset {
 public:
  IndexedSamples(std::shared_ptr<const SampleSource> source, Preparation preparation)
      : source_(std::move(source)), preparation_(std::move(preparation)), transforms_(preparation_) {}

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

  void AddImageTransform(const std::string& name, std::shared_ptr<const SampleTransform> transform) const override {
    transforms_.Add(name, std::move(transform));
  }

 private:
  Sample Get(int64_t epoch, int64_t index) const {
    TORCH_CHECK_INDEX(0 <= index && index < source_->size(), "sample ", index, " of ", source_->size());
    Sample sample = source_->Get(index);
    sample.id = index;
    transforms_.Apply(epoch, sample);
    return sample;
  }

  const std::shared_ptr<const SampleSource> source_;
  const Preparation preparation_;
  mutable TransformList transforms_;
};

class StreamedSamples final : public IterableDataset, public PreparedDataset {
 public:
  StreamedSamples(std::shared_ptr<const SampleSource> source, Preparation preparation)
      : source_(std::move(source)), preparation_(std::move(preparation)), transforms_(preparation_) {}

  std::unique_ptr<SampleStream> Open(int64_t epoch) const override { return source_->Open(epoch); }
  Batch Collate(int64_t epoch, std::vector<Sample> samples) const override {
    for (Sample& sample : samples) transforms_.Apply(epoch, sample);
    return composer::Collate(preparation_, std::move(samples));
  }

  void AddImageTransform(const std::string& name, std::shared_ptr<const SampleTransform> transform) const override {
    transforms_.Add(name, std::move(transform));
  }

 private:
  const std::shared_ptr<const SampleSource> source_;
  const Preparation preparation_;
  mutable TransformList transforms_;
};

}  // namespace

void ApplyTransforms(const std::vector<std::shared_ptr<const SampleTransform>>& transforms, uint64_t seed,
                     int64_t epoch, Sample& sample) {
  ApplyPlaced(InPlaces(transforms), seed, epoch, sample);
}

std::shared_ptr<const Dataset> PrepareSamples(std::shared_ptr<const SampleSource> source, Preparation preparation) {
  if (preparation.collator == nullptr) preparation.collator = std::make_shared<const StackCollator>();
  if (source->size() == kUnknownSize)
    return std::make_shared<const StreamedSamples>(std::move(source), std::move(preparation));
  return std::make_shared<const IndexedSamples>(std::move(source), std::move(preparation));
}

}  // namespace composer
