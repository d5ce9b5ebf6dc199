// What an NVIDIA driver calls an Xid: the number of an error of a GPU, which it writes into the kernel log and tells
// NVML's listeners. Pure.
// Source: NVIDIA's "XID Errors", https://docs.nvidia.com/deploy/xid-errors/.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace composer {

struct Xid {
  int number = 0;
  std::string pci;  // "0000:3b:00"; "" if not stated
};

// Returns "Xid 79 (the GPU has fallen off the bus)"; "Xid 7" for a number without a meaning here.
std::string DescribeXid(int number);

// Returns whether the GPU or its memory is at fault, and not the program.
bool IsHardwareXid(int number);

// Parses a record of /dev/kmsg: "4,1234,987654,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=…". Returns nullopt for any other
// line, and for lines that a program wrote there itself.
std::optional<Xid> ParseXidRecord(absl::string_view record);

}  // namespace composer
