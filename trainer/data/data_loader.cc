// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/data_loader.h"

#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainer/core/error_place.h"
#include "trainer/data/loader_checks.h"

namespace composer {
namespace {

constexpr int64_t kNamedSamples = 3;

// Counts the samples of a batch whose dataset did not set num_samples.
int64_t CountSamples(const Batch& batch) {
  TORCH_CHECK(batch.inputs.defined() && batch.inputs.dim() > 0,
              "the size of the batch is unknown: it has no inputs with a first dimension; set Batch::num_samples in "
              "the dataset's Load");
  return batch.inputs.size(0);
}

std::shared_ptr<const SampleOrder> OrderOf(const Dataset& dataset, const LoaderOptions& options) {
  if (options.order != nullptr) return options.order;
  if (std::shared_ptr<const SampleOrder> own = dataset.OwnOrder(OrderRequestOf(dataset, options))) return own;
  const int64_t size = dataset.size();
  return options.shuffle ? MakeShuffledOrder(size, options.seed) : MakeSequentialOrder(size);
}

}  // namespace

OrderRequest OrderRequestOf(const Dataset& dataset, const LoaderOptions& options) {
  return {dataset.size(), options.seed, options.global_batch_size, options.world_size, options.shuffle};
}

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, Options options)
    : dataset_(std::move(dataset)), options_(std::move(options)) {
  const int64_t batch = options_.global_batch_size;
  const std::string& label = options_.label;
  TORCH_CHECK_VALUE(dataset_->size() > 0, label, " loader: the dataset is empty");
  CheckBatchSize(options_);
  options_.order = OrderOf(*dataset_, options_);
  const int64_t size = end_ = options_.order->size();
  batches_per_epoch_ = BatchesPerEpoch(size, batch, options_.drop_last);
  TORCH_CHECK_VALUE(batches_per_epoch_ > 0, label, " loader: drop_last leaves no batch: the dataset has ", size,
                    " samples, global_", label, "_batch_size is ", batch,
                    "; set drop_last: false or a smaller batch size");
  if (options_.subset_num_batches < 0) return;
  batches_per_epoch_ = std::min(batches_per_epoch_, options_.subset_num_batches);
  end_ = std::min(size, batches_per_epoch_ * batch);
}

int64_t DataLoader::SamplesAt(int64_t sample_in_epoch) const {
  const int64_t count = std::clamp<int64_t>(end_ - sample_in_epoch, 0, options_.global_batch_size);
  return options_.drop_last && count < options_.global_batch_size ? 0 : count;
}

std::vector<int64_t> DataLoader::SampleIds(int64_t epoch, int64_t begin) const {
  std::vector<int64_t> ids;
  for (const SampleRange& range : ShareOf(SamplesAt(begin), options_)) {
    const size_t first = ids.size();
    ids.resize(first + static_cast<size_t>(range.size()));
    options_.order->Read(epoch, begin + range.begin, absl::MakeSpan(ids).subspan(first));
  }
  return ids;
}

std::string DataLoader::Describe(int64_t epoch, int64_t sample_in_epoch) const {
  std::vector<int64_t> ids = SampleIds(epoch, sample_in_epoch);
  if (ids.size() > kNamedSamples) ids.resize(kNamedSamples);
  return absl::StrCat("the samples ", absl::StrJoin(ids, ", "), ", …");
}

// Each sample is announced once an epoch, but again after a jump back.
void DataLoader::Announce(int64_t epoch, int64_t begin) {
  int64_t from, until = begin;
  {
    const absl::MutexLock lock(&mutex_);
    if (announced_epoch_ != epoch || announced_ < begin) announced_ = begin;
    announced_epoch_ = epoch;
    from = announced_;
    for (until = from; until < begin + options_.predownload && SamplesAt(until) > 0;) until += SamplesAt(until);
    announced_ = until;
  }
  while (from < until) {
    dataset_->WillLoad(epoch, SampleIds(epoch, from));
    from += SamplesAt(from);
  }
}

LoadedBatch DataLoader::Load(int64_t epoch, int64_t sample_in_epoch) {
  LoadedBatch loaded;
  loaded.global_samples = SamplesAt(sample_in_epoch);
  if (loaded.global_samples == 0) return loaded;
  if (options_.predownload > 0) Announce(epoch, sample_in_epoch);
  std::vector<int64_t> ids = SampleIds(epoch, sample_in_epoch);
  const int64_t count = static_cast<int64_t>(ids.size());
  const auto where = [&] {
    return absl::StrCat(PlaceOfBatch(options_, epoch, sample_in_epoch), ", ", SamplesText(ids));
  };
  loaded.batch = WithPlaceOfData(where, [&] {
    Batch batch = dataset_->LoadIn(epoch, ids);
    if (count > 0 && batch.num_samples == 0) batch.num_samples = CountSamples(batch);
    TORCH_CHECK(batch.num_samples == count, "the dataset gave ", batch.num_samples, " samples where ", count,
                " were asked for");
    return batch;
  });
  loaded.batch.sample_ids = std::move(ids);
  return loaded;
}

std::shared_ptr<Loader> MakeLoader(std::shared_ptr<const Dataset> dataset, LoaderOptions options) {
  if (dataset->iterable() != nullptr) return std::make_shared<StreamLoader>(std::move(dataset), std::move(options));
  return std::make_shared<DataLoader>(std::move(dataset), std::move(options));
}

Batch FirstSamples(const Dataset& dataset, int64_t count) {
  if (const IterableDataset* const iterable = dataset.iterable()) {
    std::vector<Sample> samples;
    std::unique_ptr<SampleStream> stream = iterable->Open(/*epoch=*/0);
    for (Sample sample; static_cast<int64_t>(samples.size()) < count && stream->Next(sample);) {
      if (sample.id < 0) sample.id = static_cast<int64_t>(samples.size());
      samples.push_back(std::exchange(sample, Sample()));
    }
    TORCH_CHECK_VALUE(!samples.empty(), "the dataset is empty");
    for (size_t i = 0; static_cast<int64_t>(samples.size()) < count; ++i) samples.push_back(samples[i]);
    return iterable->Collate(/*epoch=*/0, std::move(samples));
  }
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(i % dataset.size());
  Batch batch = dataset.LoadIn(/*epoch=*/0, ids);
  batch.sample_ids = std::move(ids);
  return batch;
}

}  // namespace composer
