// Sends small plain-HTTP requests to a machine's metadata service, through libcurl. The library is loaded at the first
// request and not linked, because the 25 libraries that it brings would cost every start of the launcher several
// milliseconds. No proxy, no redirect, only http://, one second for connecting and answering together, at most 1 MiB.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/platform/preemption_sources.h"

namespace composer {

// Thread-safe. Returns kUnavailable, naming the URL and the reason, without an answer in time; kUnimplemented if this
// machine has no libcurl.
absl::StatusOr<HttpReply> FetchMetadata(const MetadataRequest& request);

}  // namespace composer
