// Describes what a node sees at a job's data paths, in a few words that are equal on all nodes when the data is. A node
// whose disk is not mounted is thus refused at Join, and not discovered hours later.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace composer {

// Returns "missing", "file of 12 bytes", "folder of 3 files, 4096 bytes" (everything below it, without following links;
// only the first 10,000 entries are visited: "folder of over 10000 files"), "not readable: …" or "remote" (a URL).
std::string FingerprintData(const std::string& path);

}  // namespace composer
