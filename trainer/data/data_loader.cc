// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/data_loader.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "trainer/core/error_place.h"

namespace composer {
namespace {

// Counts the samples of a batch whose dataset did not set num_samples.
int64_t CountSamples(const Batch& batch) {
  TORCH_CHECK(batch.inputs.defined() && batch.inputs.dim() > 0,
              "the size of the batch can't be told: it has no inputs with a first dimension; set Batch::num_samples in "
              "the dataset's Load");
  return batch.inputs.size(0);
}

}  // namespace

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, Options options)
    : dataset_(std::move(dataset)), options_(std::move(options)) {
  const int64_t size = dataset_->size(), batch = options_.global_batch_size;
  const std::string& label = options_.label;
  TORCH_CHECK_VALUE(size > 0, label, " loader: the dataset is empty");
  TORCH_CHECK_VALUE(batch > 0, label, " loader: the global batch size must be at least 1, got ", batch);
  TORCH_CHECK_VALUE(batch >= options_.world_size, label, " loader: too many ranks for the batch: global_", label,
                    "_batch_size is ", batch, ", but there are ", options_.world_size,
                    " ranks (world size); each needs at least one sample: raise global_", label,
                    "_batch_size or start fewer ranks");
  batches_per_epoch_ = BatchesPerEpoch(size, batch, options_.drop_last);
  TORCH_CHECK_VALUE(batches_per_epoch_ > 0, label, " loader: drop_last leaves no batch: the dataset has ", size,
                    " samples, global_", label, "_batch_size is ", batch,
                    "; set drop_last: false or a smaller batch size");
  if (options_.subset_num_batches >= 0) {
    TORCH_CHECK_VALUE(options_.subset_num_batches > 0, label, " loader: ", label,
                      "_subset_num_batches must be -1 (all) or at least 1, got 0");
    batches_per_epoch_ = std::min(batches_per_epoch_, options_.subset_num_batches);
  }
}

int64_t DataLoader::global_samples(int64_t batch_in_epoch) const {
  return GlobalBatch(batch_in_epoch, dataset_->size(), options_.global_batch_size).size();
}

std::vector<int64_t> DataLoader::SampleIds(int64_t epoch, int64_t batch_in_epoch) const {
  const SampleRange batch = GlobalBatch(batch_in_epoch, dataset_->size(), options_.global_batch_size);
  const std::vector<SampleRange> share =
      options_.share ? options_.share(batch.size())
                     : std::vector<SampleRange>{RankShare(batch.size(), options_.rank, options_.world_size)};
  std::vector<int64_t> ids;
  for (const SampleRange& range : share) {
    for (int64_t i = range.begin; i < range.end; ++i) ids.push_back(batch.begin + i);
  }
  if (options_.shuffle) {
    const EpochPermutation order(dataset_->size(), options_.seed, epoch);
    for (int64_t& id : ids) id = order(id);
  }
  return ids;
}

std::vector<int64_t> DataLoader::FirstSamples(int64_t epoch, int64_t batch_in_epoch, int64_t count) const {
  std::vector<int64_t> ids = SampleIds(epoch, batch_in_epoch);
  ids.resize(static_cast<size_t>(std::min<int64_t>(count, static_cast<int64_t>(ids.size()))));
  return ids;
}

Batch DataLoader::Load(int64_t epoch, int64_t batch_in_epoch) const {
  const auto where = [&] { return absl::StrCat(options_.label, " loader, epoch ", epoch, ", batch ", batch_in_epoch); };
  TORCH_CHECK_INDEX(0 <= batch_in_epoch && batch_in_epoch < batches_per_epoch_, where(), ": an epoch has ",
                    batches_per_epoch_, " batches");
  std::vector<int64_t> ids = SampleIds(epoch, batch_in_epoch);
  const int64_t count = static_cast<int64_t>(ids.size());
  try {
    Batch batch = dataset_->Load(ids);
    if (count > 0 && batch.num_samples == 0) batch.num_samples = CountSamples(batch);
    TORCH_CHECK(batch.num_samples == count, "the dataset gave ", batch.num_samples, " samples where ", count,
                " were asked for");
    batch.sample_ids = std::move(ids);
    return batch;
  } catch (c10::Error& error) {
    error.add_context(absl::StrCat(where(), ", ", SamplesText(ids), StackText(error)));
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    TORCH_CHECK(false, where(), ", ", SamplesText(ids), ": ", error.what());
  }
}

}  // namespace composer
