// How a request to Azure Blob Storage shows who sends it: by the account's key or by a shared access signature. Pure.
// Source: learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key, …/service-sas-examples.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "net/http.h"

namespace composer {

struct AzureCredentials {
  std::string account;
  std::string key;  // of the account, in base64; or "" with
  std::string sas;  // "sv=…&sig=…", with or without a leading "?"
};

// Adds x-ms-date, x-ms-version and, with a key, authorization; or the parameters of the SAS. All that is in the request
// at that point is signed, so nothing may be added later. kInvalidArgument when the key is not base64.
absl::Status SignAzureRequest(const AzureCredentials& credentials, absl::Time now, HttpRequest& request);

}  // namespace composer
