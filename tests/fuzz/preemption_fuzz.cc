// Parses the answers of metadata services, and the --preemption flag, on arbitrary bytes: it must not crash or pass on
// a control character.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>

#include "launcher/platform/preemption_notice.h"
#include "launcher/platform/preemption_spec.h"

namespace {

void Check(const composer::NoticeOr& notice, absl::Time now) {
  const std::string text =
      notice.ok() ? (notice->has_value() ? DescribeNotice(**notice, now) : "") : std::string(notice.status().message());
  for (const char c : text) {
    if (c == '\n' || c == '\x1b') std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::Time now = absl::UnixEpoch();
  Check(composer::ParseAwsInstanceAction(text), now);
  Check(composer::ParseAwsRebalance(text), now);
  Check(composer::ParseGcpPreempted(text, now), now);
  Check(composer::ParseGcpMaintenance(text, now), now);
  std::vector<std::string> ids;
  Check(composer::ParseAzureEvents(text, "vm", &ids), now);
  if (composer::AzureAcknowledgement(ids).empty()) std::abort();
  composer::ParsePreemption(text, composer::Environment(), {}).status().IgnoreError();
  return 0;
}
