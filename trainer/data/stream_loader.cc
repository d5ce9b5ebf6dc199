// SPDX-License-Identifier: Apache-2.0
#include <torch/types.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "trainer/data/data_loader.h"
#include "trainer/data/loader_checks.h"

namespace composer {

StreamLoader::StreamLoader(std::shared_ptr<const Dataset> dataset, LoaderOptions options)
    : dataset_(std::move(dataset)), options_(std::move(options)) {
  CheckBatchSize(options_);
  TORCH_CHECK_VALUE(options_.order == nullptr, options_.label,
                    " loader: order: the samples of this dataset can only be read in its own order");
}

int64_t StreamLoader::SamplesAt(int64_t sample_in_epoch) const {
  const int64_t most = options_.subset_num_batches * options_.global_batch_size;
  return options_.subset_num_batches > 0 && sample_in_epoch >= most ? 0 : kUnknownSize;
}

std::string StreamLoader::Describe(int64_t /*epoch*/, int64_t sample_in_epoch) const {
  return absl::StrCat("the samples from position ", sample_in_epoch, " of the stream");
}

void StreamLoader::Resume(int64_t epoch, int64_t sample_in_epoch, const std::string& place) {
  const absl::MutexLock lock(&mutex_);
  place_epoch_ = epoch;
  place_sample_ = sample_in_epoch;
  place_ = place;
}

void StreamLoader::Open(int64_t epoch, int64_t sample_in_epoch) {
  stream_ = dataset_->iterable()->Open(epoch);
  epoch_ = epoch;
  next_ = 0;
  ended_ = false;
  if (!place_.empty() && place_epoch_ == epoch && place_sample_ <= sample_in_epoch) {
    stream_->Seek(place_);
    next_ = place_sample_;
  }
  for (Sample passed_over; next_ < sample_in_epoch; ++next_) {
    ended_ = !stream_->Next(passed_over);
    if (ended_) break;
  }
}

// A rank without a share of a short last batch needs the tensors' shapes all the same.
Batch StreamLoader::OwnShare(int64_t epoch, std::vector<Sample> samples) const {
  std::vector<Sample> own;
  for (const SampleRange& range : ShareOf(static_cast<int64_t>(samples.size()), options_)) {
    for (int64_t i = range.begin; i < range.end; ++i) own.push_back(std::move(samples[static_cast<size_t>(i)]));
  }
  const bool has_none = own.empty();
  if (has_none) own.push_back(std::move(samples.front()));
  std::vector<int64_t> ids;
  for (const Sample& sample : own) ids.push_back(sample.id);
  const int64_t count = static_cast<int64_t>(own.size());
  Batch batch = dataset_->iterable()->Collate(epoch, std::move(own));
  if (batch.num_samples == 0 && batch.inputs.defined() && batch.inputs.dim() > 0)
    batch.num_samples = batch.inputs.size(0);
  TORCH_CHECK(batch.num_samples == count, "the dataset made a batch of ", batch.num_samples, " samples of ", count);
  batch.sample_ids = std::move(ids);
  return has_none ? batch.Slice(0, 0) : batch;
}

LoadedBatch StreamLoader::Load(int64_t epoch, int64_t sample_in_epoch) {
  LoadedBatch loaded;
  if (SamplesAt(sample_in_epoch) == 0) return loaded;
  const absl::MutexLock lock(&mutex_);
  const auto where = [&] { return PlaceOfBatch(options_, epoch, sample_in_epoch); };
  std::vector<Sample> samples;
  loaded.batch = WithPlaceOfData(where, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (stream_ == nullptr || epoch_ != epoch || next_ != sample_in_epoch) Open(epoch, sample_in_epoch);
    Sample sample;
    while (!ended_ && static_cast<int64_t>(samples.size()) < options_.global_batch_size) {
      ended_ = !stream_->Next(sample);
      if (ended_) break;
      if (sample.id < 0) sample.id = next_;
      ++next_;
      samples.push_back(std::exchange(sample, Sample()));
    }
    if (samples.empty() || (options_.drop_last && static_cast<int64_t>(samples.size()) < options_.global_batch_size))
      return Batch();
    loaded.global_samples = static_cast<int64_t>(samples.size());
    loaded.place = stream_->Place();
    return OwnShare(epoch, std::move(samples));
  });
  return loaded;
}

}  // namespace composer
