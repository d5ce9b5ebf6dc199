// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/gpu_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/process/xid.h"

namespace composer {
namespace {

constexpr size_t kNamedXids = 3;
constexpr uint64_t kTooHot = kThrottleHardwareThermal | kThrottleSoftwareThermal;

}  // namespace

void GpuWatch::Begin() {
  if (!std::exchange(tried_, true)) {
    if (auto nvml = Nvml::Load(library_); nvml.ok()) nvml_ = *std::move(nvml);
    if (nvml_ != nullptr) nvml_->StartEvents().IgnoreError();
  }
  if (nvml_ == nullptr) return;
  TakeEvents();
  xids_.clear();
  errors_at_begin_.clear();
  for (int device = 0; device < nvml_->DeviceCount().value_or(0); ++device)
    errors_at_begin_[device] = nvml_->MemoryErrors(device).value_or(0);
}

void GpuWatch::TakeEvents() {
  for (const Nvml::XidEvent& event : nvml_->TakeXids()) xids_[event.device].push_back(event.number);
}

std::string GpuWatch::Look(int cuda_index, absl::string_view visible_devices) {
  if (nvml_ == nullptr) return "";
  TakeEvents();
  const absl::StatusOr<int> device = nvml_->IndexOf(cuda_index, visible_devices);
  if (!device.ok()) return "";
  std::vector<std::string> said;
  const std::vector<int>& xids = xids_[*device];
  for (size_t i = 0; i < std::min(xids.size(), kNamedXids); ++i) said.push_back("reported " + DescribeXid(xids[i]));
  if (xids.size() > kNamedXids) said.push_back(absl::StrCat(xids.size() - kNamedXids, " more"));
  const absl::StatusOr<int64_t> errors = nvml_->MemoryErrors(*device);
  if (errors.ok() && *errors > errors_at_begin_[*device])
    said.push_back(absl::StrCat("counted ", *errors - errors_at_begin_[*device], " uncorrected errors of its memory"));
  if (!nvml_->Name(*device).ok()) said.push_back("does not answer any more");
  if ((nvml_->ThrottleReasons(*device).value_or(0) & kTooHot) != 0) said.push_back("is slowed down by heat");
  return said.empty() ? "" : absl::StrCat("GPU ", *device, " ", absl::StrJoin(said, ", "));
}

}  // namespace composer
