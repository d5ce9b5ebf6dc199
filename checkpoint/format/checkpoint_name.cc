// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/checkpoint_name.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/random.h"
#include "storage/checksum.h"

namespace composer {
namespace {

constexpr absl::string_view kAttempt = "attempt-";

std::string AttemptPrefix(absl::string_view run_name) {
  return absl::StrCat(kAttempt, absl::Hex(static_cast<uint32_t>(Xxh3(run_name) >> 32), absl::kZeroPad8));
}

}  // namespace

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

std::string NewAttemptName(absl::string_view run_name) { return absl::StrCat(AttemptPrefix(run_name), RandomHex(4)); }

bool IsAttemptOf(absl::string_view run_name, absl::string_view attempt) {
  return IsAttemptName(attempt) && absl::StartsWith(attempt, AttemptPrefix(run_name));
}

bool IsAttemptName(absl::string_view text) {
  return absl::ConsumePrefix(&text, kAttempt) && ParseChecksum(text).has_value();
}

bool IsRankFileName(absl::string_view text) {
  constexpr size_t kDigitsBegin = 5;  // "rank-"
  int rank = 0;
  if (text.size() <= kDigitsBegin || !absl::SimpleAtoi(text.substr(kDigitsBegin, text.find('.') - kDigitsBegin), &rank))
    return false;
  return rank >= 0 && text == RankFileName(rank);
}

}  // namespace composer
