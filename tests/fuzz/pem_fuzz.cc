// Parses certificates and keys from the user's files: authority, certificate and key, separated by zero bytes.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "rendezvous/transport/tls_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('\0', 2));
  composer::TlsPems pems;
  if (!parts.empty()) pems.authority = parts[0];
  if (parts.size() > 1) pems.certificate = parts[1];
  if (parts.size() > 2) pems.key = parts[2];
  (void)composer::CheckPems(pems, {"cert", "key", "ca", ""}, absl::UnixEpoch());
  return 0;
}
