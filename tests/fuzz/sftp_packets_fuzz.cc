// Reads arbitrary bytes as an SFTP server's packets.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>

#include "net/sftp_packets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view packet(reinterpret_cast<const char*>(data), size);
  composer::CheckSftpVersion(packet).IgnoreError();
  const auto answer = composer::ParseSftpAnswer(packet);
  if (!answer.ok()) return 0;
  composer::StatusOfSftp(*answer).IgnoreError();
  if (answer->text.size() > 4 * size || answer->names.size() > size || answer->size < -1) std::abort();
  return 0;
}
