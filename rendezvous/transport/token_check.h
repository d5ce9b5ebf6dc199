// The job's token on every call: a server that has one answers no call without it, on any service, health included. The
// comparison takes the same time whatever is wrong. Only over TLS: both refuse a connection in clear.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace composer {

// Whether both are equal; the time depends on neither's content.
bool EqualInConstantTime(absl::string_view a, absl::string_view b);

// UNAUTHENTICATED unless the call carries `call_token`. The handler does not get to see it.
std::shared_ptr<grpc::AuthMetadataProcessor> RequireToken(std::string call_token);

// Sends `call_token` with every call.
std::shared_ptr<grpc::CallCredentials> SendToken(std::string call_token);

}  // namespace composer
