// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/dataset.h"

#include <c10/util/Exception.h>

#include <utility>

namespace composer {

void SampleStream::Seek(const std::string& place) {
  TORCH_CHECK_VALUE(place.empty(), "this stream has no places, but a checkpoint says it stood at `", place, "`");
}

Batch IterableDataset::Load(absl::Span<const int64_t> /*indices*/) const {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "the samples of this dataset can only be read in order");
}

Sample SampleSource::Get(int64_t /*index*/) const {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "the samples of this source can only be read in order");
}

std::unique_ptr<SampleStream> SampleSource::Open(int64_t /*epoch*/) const {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "the samples of this source are read by index");
}

Batch DataSpec::Split(const Batch& batch, int64_t begin, int64_t end) const {
  if (!split_batch || (begin == 0 && end == batch.num_samples)) return batch.Slice(begin, end);
  Batch part = split_batch(batch, begin, end);
  TORCH_CHECK_VALUE(part.num_samples == end - begin, "split_batch gave ", part.num_samples,
                    " samples (Batch::num_samples) for the samples [", begin, ", ", end, ") of a batch");
  return part;
}

Batch DataSpec::Prepare(Batch batch, at::Device device) const {
  if (!device.is_cpu()) batch = batch.To(device);
  if (get_num_samples_in_batch) batch.num_samples = get_num_samples_in_batch(batch);
  if (get_num_tokens_in_batch) batch.num_tokens = get_num_tokens_in_batch(batch);
  TORCH_CHECK_VALUE(batch.num_samples >= 0 && batch.num_tokens >= 0, "a batch was counted to have ", batch.num_samples,
                    " samples and ", batch.num_tokens, " tokens");
  return batch_transform && batch.num_samples > 0 ? batch_transform(std::move(batch)) : batch;
}

const DataSpec& SpecOf(const Loader* loader) {
  static const DataSpec* const plain = new DataSpec();
  return loader == nullptr ? *plain : loader->spec();
}

}  // namespace composer
