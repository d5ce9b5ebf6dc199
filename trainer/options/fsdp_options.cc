// SPDX-License-Identifier: Apache-2.0
#include "trainer/options/fsdp_options.h"

#include "absl/strings/str_cat.h"

namespace composer {

absl::Status ResolveDegrees(const FsdpOptions& options, int world_size, MeshDegrees& degrees) {
  const int shard = options.data_parallel_shard_degree;
  const int replicate = options.data_parallel_replicate_degree == 0 && shard > 0
                            ? world_size / shard
                            : options.data_parallel_replicate_degree;
  if (replicate < 1 || world_size % replicate != 0) {
    return absl::InvalidArgumentError(absl::StrCat("data_parallel_replicate_degree: ", replicate,
                                                   " does not divide the number of ranks, ", world_size));
  }
  degrees = {shard == 0 ? world_size / replicate : shard, replicate};
  if (degrees.shard * degrees.replicate != world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("data_parallel_shard_degree: ", shard, " x data_parallel_replicate_degree: ", replicate, " is ",
                     degrees.shard * degrees.replicate, ", but there are ", world_size, " ranks (-1: all that fit)"));
  }
  return absl::OkStatus();
}

}  // namespace composer
