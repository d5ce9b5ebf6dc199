// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/microbatch_policy.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/format/json.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

constexpr int64_t kMaxPatience = 4096;
constexpr int64_t kForgetAfter = 8;  // in units of patience

}  // namespace

absl::Status MicrobatchPolicy::OnOutOfMemory(int64_t samples) {
  size_ = std::min(size_, samples);
  good_steps_ = 0;
  patience_ = std::min(kMaxPatience, 2 * patience_);
  failed_ = failed_ == 0 ? size_ : std::min(failed_, size_);
  if (size_ == 1) return OutOfMemoryStatus("a microbatch of one sample does not fit");
  if (fitted_ >= size_) fitted_ = 0;  // what fitted once does not fit any longer
  size_ = fitted_ > 0 ? (fitted_ + size_) / 2 : size_ / 2;
  return absl::OkStatus();
}

void MicrobatchPolicy::OnFit(int64_t samples) {
  if (samples < size_) return;
  fitted_ = std::max(fitted_, size_);
  ++good_steps_;
  if (size_ >= largest_) return;
  if (failed_ > 0 && good_steps_ >= kForgetAfter * patience_) failed_ = 0;
  if (good_steps_ % patience_ != 0) return;
  const int64_t next = failed_ > 0 ? (size_ + failed_) / 2 : 2 * size_;
  if (next == size_) return;
  size_ = std::min(next, largest_);
  good_steps_ = 0;
}

std::string MicrobatchPolicy::SaveState() const {
  return nlohmann::json{
      {"size", size_}, {"fitted", fitted_}, {"failed", failed_}, {"good_steps", good_steps_}, {"patience", patience_}}
      .dump();
}

absl::Status MicrobatchPolicy::LoadState(absl::string_view text) {
  const auto json = ParseJson(text);
  for (const char* key : {"size", "fitted", "failed", "good_steps", "patience"}) {
    if (!json.is_object() || !json.contains(key) || !json[key].is_number_integer() || json[key] < 0)
      return absl::DataLossError(absl::StrCat("the microbatch policy's state has no ", key));
  }
  size_ = std::clamp(json["size"].get<int64_t>(), int64_t{1}, largest_);
  fitted_ = std::min(json["fitted"].get<int64_t>(), largest_);
  failed_ = json["failed"];
  good_steps_ = json["good_steps"];
  patience_ = std::clamp(json["patience"].get<int64_t>(), int64_t{1}, kMaxPatience);
  return absl::OkStatus();
}

}  // namespace composer
