// Where things are in a folder of checkpoints (docs/checkpoint_format.md). Pure, but for RandomAttemptName.
//   ep{epoch}-ba{batch}/manifest.json                           the commit: a checkpoint is there when this is
//   ep{epoch}-ba{batch}/attempt-{16 hex}/rank-00000.safetensors  one attempt's data, one file a rank that has any
//   latest                                                       a hint for people: the newest one's name
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

// "attempt-" and 16 random hexadecimal digits.
std::string RandomAttemptName();

// Exact rules for names that come out of a file.
bool IsAttemptName(absl::string_view text);
bool IsRankFileName(absl::string_view text);

}  // namespace composer
