// Reads and checks the user's PEM files before they are used, so that a mistake gets a clear message instead of a
// failed handshake.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rendezvous/transport/credentials.h"

namespace composer {

// kInvalidArgument, naming the file: it cannot be read, or is larger than a megabyte.
absl::StatusOr<TlsPems> ReadTlsFiles(const TlsFiles& files);

// Pure. kInvalidArgument, naming the file from `names`: not PEM, the key does not match the certificate, not valid at
// `now`, or not signed by the authority.
absl::Status CheckPems(const TlsPems& pems, const TlsFiles& names, absl::Time now);

}  // namespace composer
