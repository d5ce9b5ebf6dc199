// What both loaders share: their checks, a rank's share, and how a dataset's errors name their place.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/Exception.h>

#include <new>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "trainer/core/error_place.h"
#include "trainer/data/data_loader.h"

namespace composer {

inline void CheckBatchSize(const LoaderOptions& options) {
  const std::string& label = options.label;
  const int64_t batch = options.global_batch_size;
  TORCH_CHECK_VALUE(batch > 0, label, " loader: the global batch size must be at least 1, got ", batch);
  TORCH_CHECK_VALUE(batch >= options.world_size, label, " loader: too many ranks for the batch: global_", label,
                    "_batch_size is ", batch, ", but there are ", options.world_size,
                    " ranks (world size); each needs at least one sample: raise global_", label,
                    "_batch_size or start fewer ranks");
  TORCH_CHECK_VALUE(options.subset_num_batches != 0, label, " loader: ", label,
                    "_subset_num_batches must be -1 (all) or at least 1, got 0");
}

inline std::vector<SampleRange> ShareOf(int64_t count, const LoaderOptions& options) {
  return options.share ? options.share(count)
                       : std::vector<SampleRange>{RankShare(count, options.rank, options.world_size)};
}

inline std::string PlaceOfBatch(const LoaderOptions& options, int64_t epoch, int64_t sample_in_epoch) {
  return absl::StrCat(options.label, " loader, epoch ", epoch, ", batch ",
                      (sample_in_epoch + options.global_batch_size - 1) / options.global_batch_size);
}

// Calls load() and returns its batch. A c10::Error is rethrown with where() added; any other exception but out of
// memory becomes such an error.
template <typename Where, typename Load>
Batch WithPlaceOfData(const Where& where, const Load& load) {
  try {
    return load();
  } catch (c10::Error& error) {
    error.add_context(absl::StrCat(where(), StackText(error)));
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    TORCH_CHECK(false, where(), ": ", error.what());
  }
}

}  // namespace composer
