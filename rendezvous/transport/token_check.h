// The job's token on every call: a server that has a token answers no call without it, on any service, health checks
// included. The comparison takes the same time whatever is wrong. Only over TLS: both sides refuse an unencrypted
// connection.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace composer {

// Returns whether both are equal; the time depends on neither's content.
bool EqualInConstantTime(absl::string_view a, absl::string_view b);

// Rejects calls that do not carry `call_token` with UNAUTHENTICATED. Hides the token from the handler.
std::shared_ptr<grpc::AuthMetadataProcessor> RequireToken(std::string call_token);

// Sends `call_token` with every call.
std::shared_ptr<grpc::CallCredentials> SendToken(std::string call_token);

}  // namespace composer
