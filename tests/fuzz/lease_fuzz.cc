// Parses leases, which other launches, and anyone who can write to the folder, leave there.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "checkpoint/folder/lease.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  (void)composer::LeaseNumber(text);
  const auto lease = composer::ParseLease(text);
  if (!lease.ok()) return 0;
  const auto again = composer::ParseLease(composer::SerializeLease(*lease));
  if (!again.ok() || !(*again == *lease)) std::abort();
  const composer::LeaseHolder me = {"run", "0123456789abcdef", {"launch"}, 1, "host, pid 1"};
  for (const bool renewed : {false, true}) {
    const auto decision = composer::DecideLease(me, {true, *lease, renewed, absl::Minutes(2)}, "here");
    for (const char c : decision.refusal.message()) {
      if (static_cast<unsigned char>(c) < ' ') std::abort();
    }
  }
  if (composer::NextLease(me, *lease).superseded.size() > composer::kMaxLaunches) std::abort();
  return 0;
}
