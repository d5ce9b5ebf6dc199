// What a node sees at a job's data paths, in a few words that are the same on all nodes when the data is: a node whose disk
// is not mounted is refused at Join, and not found out hours later.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace composer {

// "missing", "file of 12 bytes", "folder of 3 files, 4096 bytes" (with all below it, links not followed; only the first
// 10,000 entries are looked at: "folder of over 10000 files"), "not readable: …", "remote" (a URL).
std::string FingerprintData(const std::string& path);

}  // namespace composer
