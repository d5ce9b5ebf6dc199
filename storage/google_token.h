// Finds an access token for Google Cloud Storage, as Google's own libraries do (application default credentials):
//   1 GOOGLE_APPLICATION_CREDENTIALS, else ~/.config/gcloud/application_default_credentials.json: the key file of a
//     service account, or what `gcloud auth application-default login` wrote
//   2 the machine's service account, from the metadata server
// Source: cloud.google.com/docs/authentication/application-default-credentials, RFC 7523 (the signed assertion).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/env.h"
#include "net/http.h"

namespace composer {

struct GoogleToken {
  std::string token;
  absl::Time expires;
};

// kPermissionDenied, naming what was tried, when there are no credentials; the server's error when it refuses them.
absl::StatusOr<GoogleToken> FindGoogleToken(const Environment& env, Http& http, absl::Time now);

// Returns the assertion by which a service account asks for a token: header, claims and signature (RS256), each in
// base64url, joined by dots. kInvalidArgument when the key is not an RSA key in PEM. Pure.
absl::StatusOr<std::string> SignedAssertion(const std::string& email, const std::string& private_key,
                                            const std::string& audience, absl::Time now);

}  // namespace composer
