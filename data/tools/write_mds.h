// Writes records as an MDS data set, on several threads, and goes on where a killed write stopped.
//
// Beside the shards lies the journal composer-write.json: the shards that are stored, and what they are made of. The
// same command over the same files goes on behind them, to the same bytes as an undisturbed write; the journal goes
// when index.json is there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "data/mds/writer.h"
#include "data/tools/record_source.h"
#include "storage/object_store.h"

namespace composer {

struct WriteProgress {
  int64_t samples = 0, of_samples = 0;
  int64_t bytes = 0;  // of values since this start
};

struct WriteMdsOptions {
  MdsWriterOptions writer;  // without columns: those that the first record suggests
  int threads = 1;
  bool restart = false;                                // from the beginning, whatever a journal says
  std::function<void(const WriteProgress&)> progress;  // after every few thousand samples
};

// Returns the number of samples. kFailedPrecondition: an unfinished write of other files or with other options lies
// there; kAlreadyExists: a finished one; kInvalidArgument names file, byte and column.
absl::StatusOr<int64_t> WriteMds(const RecordSource& records, std::shared_ptr<ObjectStore> store,
                                 WriteMdsOptions options);

}  // namespace composer
