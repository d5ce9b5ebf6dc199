// Samples out of Parquet and Arrow files: a row is a sample. Values by column (data/tables/arrow_module.h): texts and
// bytes are texts, whole numbers int64 and fractions float32 scalars, lists of them rows, everything else a text with
// its JSON; a missing value is left out. `features` together are `inputs`, float32 [n], and `target` is `targets`,
// int64.
//
// Row groups of Parquet are decoded whole. So a shuffled epoch (OwnOrder) takes the groups in random order and shuffles
// blocks of rows, of about `shuffle_bytes` when decoded (mosaicml-streaming's py1br with groups as shards): each group
// is decoded once an epoch, and a rank holds at most about twice that. Uncompressed Arrow files are mapped, and are
// shuffled as a whole. With a bounded cache of files in stores, files are taken in random order instead, and blocks are
// shuffled whose files also fill no more than a quarter of it: each is fetched once an epoch. Threads: any number at a
// time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/tables/table_files.h"
#include "trainer/core/dataset.h"

namespace composer {

struct TableOptions {
  std::vector<std::string> paths;  // files, folders or globs
  TableFormat format = TableFormat::kParquet;
  std::vector<std::string> columns;   // that are read; empty: all. features and target are read in any case
  bool if_present = false;            // of `columns`, those that the files have
  std::vector<std::string> features;  // of numbers; empty: no `inputs`
  std::string target;                 // of whole numbers; "": no `targets`
  int64_t shuffle_bytes = int64_t{512} << 20;
  FetchOptions fetch;  // with `local`, the paths are in stores (s3://…)
};

// Errors as of TableFiles::Open; kInvalidArgument also names a feature or target that is not a number.
absl::StatusOr<std::shared_ptr<const SampleSource>> OpenTables(const TableOptions& options,
                                                               const StoreOpener& open_store = nullptr);

}  // namespace composer
