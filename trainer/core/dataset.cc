// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/dataset.h"

#include <c10/util/Exception.h>

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

}  // namespace composer
