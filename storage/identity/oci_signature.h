// How a request to Oracle's own API shows who sends it: HTTP signatures by the user's RSA key. Pure.
// Source: docs.oracle.com/iaas/Content/API/Concepts/signingrequests.htm (Signature Version 1).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "net/http.h"

namespace composer {

struct OciCredentials {
  std::string tenancy, user;  // OCIDs
  std::string fingerprint;    // of the key, "20:3b:97:…"
  std::string private_key;    // an RSA key in PEM
  std::string pass_phrase;    // of the key; "": none
};

// Adds date and authorization; of a POST also content-type and x-content-sha256, which are signed with its body. The
// bodies of objects (PUT) are not signed, as in Oracle's clients. Nothing of the request may be changed later.
// kInvalidArgument when the key cannot be read or is not an RSA key.
absl::Status SignOciRequest(const OciCredentials& credentials, absl::Time now, HttpRequest& request);

}  // namespace composer
