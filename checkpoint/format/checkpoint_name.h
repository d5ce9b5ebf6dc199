// Where things are in a folder of checkpoints (docs/checkpoint_format.md). Pure, but for NewAttemptName.
//   ep{epoch}-ba{batch}/manifest.json                           the commit: a checkpoint is there when this is
//   ep{epoch}-ba{batch}/attempt-{16 hex}/rank-00000.safetensors  one attempt's data, one file a rank that has any
//   latest                                                       a hint for people: the newest one's name
//   lease/{number}.json                                          who saves here (checkpoint/folder/lease.h)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace composer {

// Batches and epochs done since the run began; ordered by batch, then epoch (the end of an epoch comes after its last
// batch).
struct CheckpointName {
  int64_t epoch = 0;
  int64_t batch = 0;

  std::string ToString() const;
  // nullopt unless the text is exactly what ToString gives for some name.
  static std::optional<CheckpointName> Parse(absl::string_view text);

  bool operator==(const CheckpointName&) const = default;
  std::strong_ordering operator<=>(const CheckpointName& other) const;
};

inline constexpr absl::string_view kLatestKey = "latest";
std::string ManifestKey(absl::string_view checkpoint);
std::string AttemptKey(absl::string_view checkpoint, absl::string_view attempt);
std::string RankFileName(int rank);

// "attempt-" and 16 hexadecimal digits: 8 that are the same for all attempts of a run, and 8 random ones.
std::string NewAttemptName(absl::string_view run_name);
// Whether an attempt's name is of this run. One in 2^32 of another run's, or of an attempt by a composer that drew all 16
// digits, looks as if it were.
bool IsAttemptOf(absl::string_view run_name, absl::string_view attempt);

// Exact rules for names that come out of a file.
bool IsAttemptName(absl::string_view text);
bool IsRankFileName(absl::string_view text);

}  // namespace composer
