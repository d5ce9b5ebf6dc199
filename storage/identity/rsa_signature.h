// Signatures of RSA keys (RS256: PKCS #1 v1.5 over SHA-256), by which Google's service accounts and Oracle's users show
// who they are. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

// Returns the signature's bytes. `pass_phrase` opens a key that is encrypted. kInvalidArgument when `private_key` is
// not an RSA key in PEM, or is encrypted with another pass phrase.
absl::StatusOr<std::string> RsaSha256(const std::string& private_key, const std::string& pass_phrase,
                                      absl::string_view text);

}  // namespace composer
