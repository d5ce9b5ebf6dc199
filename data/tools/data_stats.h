// `composer data stats`: how many samples, how long their values are, and how many are duplicates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "data/mds/index.h"
#include "data/tools/record_source.h"
#include "storage/object_store.h"

namespace composer {

// Lengths: the smallest, the largest, the sum, and quantiles to one part in 16.
class LengthCounts {
 public:
  void Add(int64_t length);
  void Add(const LengthCounts& other);
  int64_t least() const { return least_; }
  int64_t most() const { return most_; }
  int64_t sum() const { return sum_; }
  int64_t count() const { return count_; }
  // The length that a share of them does not exceed, 0 < share <= 1.
  int64_t Quantile(double share) const;

 private:
  std::array<int64_t, 64 * 16> counts_ = {};
  int64_t least_ = INT64_MAX, most_ = 0, sum_ = 0, count_ = 0;
};

// Returns the number of a text's tokens. Called from several threads.
using TokenCounter = std::function<absl::StatusOr<int64_t>(absl::string_view text)>;

struct DataStats {
  std::vector<MdsColumn> columns;
  TokenCounter count_tokens;  // empty: tokens of texts are not counted
  // Of each column: bytes of texts and pictures, numbers of arrays (such as tokens).
  std::vector<LengthCounts> lengths;
  std::vector<LengthCounts> tokens;  // of columns of texts
  int64_t samples = 0;
  absl::flat_hash_set<uint64_t> distinct;  // hashes of samples; 16 bytes each

  absl::Status Add(absl::Span<const absl::string_view> values);
  void Add(const DataStats& other);
  // Some lines: samples, duplicates, and a line or two for each column.
  std::string Text() const;
};

// `threads` >= 1. The first error ends it.
absl::StatusOr<DataStats> StatsOfMds(ObjectStore& store, const MdsIndex& index, int threads,
                                     const TokenCounter& count_tokens = nullptr);
absl::StatusOr<DataStats> StatsOfRecords(const RecordSource& records, int threads,
                                         const TokenCounter& count_tokens = nullptr);

}  // namespace composer
