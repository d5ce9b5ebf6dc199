// Opens the store that a place names:
//   a path, file:///path     LocalStore
//   s3://bucket/prefix       S3; S3_ENDPOINT_URL, AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL for another server
//   gs://bucket/prefix       Google's, with HMAC keys (GCS_KEY, GCS_SECRET) or as google_token.h says
//   oci://bucket[@namespace]/prefix   Oracle's, with the user's RSA key (~/.oci/config: identity/oci_config.h), or with
//                            customer secret keys (OCI_KEY, OCI_SECRET, OCI_REGION) and the namespace
//   azure://container/prefix AZURE_STORAGE_ACCOUNT (or AZURE_ACCOUNT_NAME), and AZURE_STORAGE_KEY (or
//                            AZURE_ACCOUNT_ACCESS_KEY) or AZURE_STORAGE_SAS_TOKEN; AZURE_STORAGE_ENDPOINT_URL
//   dbfs:/Volumes/catalog/schema/volume/folder   Databricks', with DATABRICKS_HOST and DATABRICKS_TOKEN
//   sftp://[user@]host[:port]/folder             by the user's ssh, with COMPOSER_SFTP_KEY_FILE and
//                            COMPOSER_SFTP_KNOWN_HOSTS_FILE if set; /~/folder is below the home there
//   https://host/folder, http://host/folder      a web server, to read only
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/env.h"
#include "storage/object_store.h"

namespace composer {

// kInvalidArgument, naming what is allowed, for an invalid place. Sends nothing to the server yet; keys are looked up
// at the first request. Copies `env`.
absl::StatusOr<std::shared_ptr<ObjectStore>> OpenStore(const std::string& place, const Environment& env);

}  // namespace composer
