// TLS identities that every node of a job can make for itself from the job's token, and nobody else can: scrypt derives
// from the token the private key of the job's certificate authority, the same on every node, and each process signs a
// fresh key with it. Nothing secret is ever sent, nothing has to be distributed, and a peer that proves its certificate
// has proved that it knows the token.
//
// Whoever connects without the token learns the authority's public key and can try tokens against it offline, at the
// cost of one scrypt each: hence kMinTokenBytes; `openssl rand -hex 32` makes a good token.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace composer {

inline constexpr size_t kMinTokenBytes = 16;
inline constexpr size_t kMaxTokenBytes = 1024;

// The secrets derived from a token. `call_token` is sent with every call (over TLS only) in place of the token itself.
struct TokenSecrets {
  std::string authority_seed;  // 32 bytes, the private key
  std::string call_token;      // 64 hex digits
};

// Takes about 50 ms of CPU on purpose. kInvalidArgument: the token is too short or too long.
absl::StatusOr<TokenSecrets> DeriveSecrets(absl::string_view token);

// PEM texts, as a TLS library takes them.
struct TlsPems {
  std::string authority;  // one or more certificates to trust
  std::string certificate;
  std::string key;
};

// Returns a fresh P-256 key and a certificate for it that is valid from 30 days before `now` (clocks differ) for 10
// years: an identity ends with its job's token.
absl::StatusOr<TlsPems> MintIdentity(const TokenSecrets& secrets, absl::Time now);

}  // namespace composer
