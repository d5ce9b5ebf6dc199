// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint_name.h"

#include <random>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "storage/checksum.h"

namespace composer {

std::string CheckpointName::ToString() const { return absl::StrCat("ep", epoch, "-ba", batch); }

std::optional<CheckpointName> CheckpointName::Parse(absl::string_view text) {
  const size_t dash = text.find("-ba");
  if (!absl::StartsWith(text, "ep") || dash == absl::string_view::npos) return std::nullopt;
  CheckpointName name;
  if (!absl::SimpleAtoi(text.substr(2, dash - 2), &name.epoch)) return std::nullopt;
  if (!absl::SimpleAtoi(text.substr(dash + 3), &name.batch)) return std::nullopt;
  if (name.epoch < 0 || name.batch < 0 || name.ToString() != text) return std::nullopt;
  return name;
}

std::strong_ordering CheckpointName::operator<=>(const CheckpointName& other) const {
  const auto by_batch = batch <=> other.batch;
  return by_batch != 0 ? by_batch : epoch <=> other.epoch;
}

std::string ManifestKey(absl::string_view checkpoint) { return absl::StrCat(checkpoint, "/manifest.json"); }

std::string AttemptKey(absl::string_view checkpoint, absl::string_view attempt) {
  return absl::StrCat(checkpoint, "/", attempt);
}

std::string RankFileName(int rank) { return absl::StrFormat("rank-%05d.safetensors", rank); }

std::string RandomAttemptName() {
  std::random_device random;
  const uint64_t number = (uint64_t{random()} << 32) | random();
  return absl::StrCat("attempt-", absl::Hex(number, absl::kZeroPad16));
}

bool IsAttemptName(absl::string_view text) {
  constexpr absl::string_view kPrefix = "attempt-";
  return absl::StartsWith(text, kPrefix) && ParseChecksum(text.substr(kPrefix.size())).has_value();
}

bool IsRankFileName(absl::string_view text) {
  constexpr size_t kDigitsBegin = 5;  // "rank-"
  int rank = 0;
  if (text.size() <= kDigitsBegin || !absl::SimpleAtoi(text.substr(kDigitsBegin, text.find('.') - kDigitsBegin), &rank))
    return false;
  return rank >= 0 && text == RankFileName(rank);
}

}  // namespace composer
