// ParseManifest on arbitrary bytes: the input as it is, and as the body of a manifest with a right checksum, so that
// the fuzzer gets behind it. What is parsed must be written and parsed again to the same.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "checkpoint/manifest.h"

namespace {

void Try(absl::string_view text) {
  const auto manifest = composer::ParseManifest(text);
  if (!manifest.ok()) return;
  composer::CheckComplete(*manifest).IgnoreError();
  const auto written = composer::SerializeManifest(*manifest);
  if (!written.ok()) std::abort();
  const auto again = composer::ParseManifest(*written);
  if (!again.ok() || *again != *manifest) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  Try(text);
  Try(absl::StrCat(text, composer::ManifestTrailer(text)));
  return 0;
}
