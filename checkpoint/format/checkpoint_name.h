// This names the objects in a folder of checkpoints (docs/checkpoint_format.md). Pure, except NewAttemptName.
//   ep{epoch}-ba{batch}/manifest.json                           the commit: the checkpoint exists once this does
//   ep{epoch}-ba{batch}/attempt-{16 hex}/rank-00000.safetensors  one attempt's data, one file per rank that has any
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

// A name has the batches and epochs done since the run began; ordered by batch, then epoch (the end of an epoch comes
// after its last batch).
struct CheckpointName {
  int64_t epoch = 0;
  int64_t batch = 0;

  std::string ToString() const;
  // Returns nullopt unless the text is exactly what ToString returns for some name.
  static std::optional<CheckpointName> Parse(absl::string_view text);

  bool operator==(const CheckpointName&) const = default;
  std::strong_ordering operator<=>(const CheckpointName& other) const;
};

inline constexpr absl::string_view kLatestKey = "latest";
std::string ManifestKey(absl::string_view checkpoint);
std::string AttemptKey(absl::string_view checkpoint, absl::string_view attempt);
std::string RankFileName(int rank);

// Returns "attempt-" and 16 hexadecimal digits: 8 that all attempts of a run share, and 8 random ones.
std::string NewAttemptName(absl::string_view run_name);
// Returns whether an attempt's name is of this run. One in 2^32 names of another run, or of a composer that drew all 16
// digits, matches by chance.
bool IsAttemptOf(absl::string_view run_name, absl::string_view attempt);

// These are exact rules for names that come out of a file.
bool IsAttemptName(absl::string_view text);
bool IsRankFileName(absl::string_view text);

}  // namespace composer
