// Follows links of checkpoints, which anyone who can write to the folder may have left there. Wherever one leads, it is
// a checkpoint of the link's own folder or of one above it.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "checkpoint/format/checkpoint_link.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0');
  const std::string place = input.substr(0, end), text = end == input.npos ? "" : input.substr(end + 1);
  for (const std::string& from : {place, std::string("/runs/x/a/b/link.pt"), "s3://bucket/run/" + place}) {
    const auto leads = composer::FollowLink(from, text);
    if (!leads) continue;
    if (absl::StartsWith(from, "s3://bucket/") && !absl::StartsWith(*leads, "s3://bucket/")) std::abort();
    const size_t slash = leads->rfind('/');
    if (!composer::CheckpointName::Parse(leads->substr(slash + 1)) || !absl::StartsWith(from, leads->substr(0, slash)))
      std::abort();
  }
  const std::string key = composer::LinkOf({{composer::kLinkKey, text}});
  if (key.empty()) return 0;
  if (!composer::MayBeLink(key)) std::abort();
  const auto back = composer::FollowLink("/folder/" + key, composer::LinkText(key, {3, 7}));
  if (back.value_or("") != "/folder/ep3-ba7") std::abort();
  return 0;
}
