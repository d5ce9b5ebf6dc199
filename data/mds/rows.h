// Shards of text rows: mosaicml-streaming's formats json, csv, tsv and xsv. A shard is two files:
//
//   data   rows, each with the newline of the index; csv, tsv and xsv begin with the columns' names
//   meta   u32 rows; u32 offset[rows + 1] into data; a configuration in JSON
//
// Columns are str, int and float. A row is a JSON object, or values between separators, which no value contains. When a
// shard is opened it is turned into an MDS shard in memory (str, int, float64), so that readers know one format only.
// Source: streaming/base/format/json and xsv of mosaicml-streaming 0.13.0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/mds/index.h"
#include "data/mds/shard.h"

namespace composer {

// Returns what MdsShard::Open takes: the plain bytes (PartsOf) themselves, or what rows become. kDataLoss names the row
// that is not as the index says.
absl::StatusOr<OwnedBytes> MdsOfPlain(OwnedBytes plain, const MdsShardInfo& info);

}  // namespace composer
