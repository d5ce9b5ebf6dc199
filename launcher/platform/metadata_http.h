// Small plain-HTTP requests to a machine's metadata service, by libcurl. The library is loaded at the first request and
// not linked: with the 25 libraries that it brings it would cost every start of the launcher several milliseconds.
// No proxy, no redirect, no name but http://, one second for connecting and answering together, at most 1 MiB.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/platform/preemption_sources.h"

namespace composer {

// Threads: any. kUnavailable: no answer in time, naming the URL and why; kUnimplemented: no libcurl on this machine.
absl::StatusOr<HttpReply> FetchMetadata(const MetadataRequest& request);

}  // namespace composer
