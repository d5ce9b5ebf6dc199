// Who may take part in a job: where its secret comes from, decided once by each launcher (docs/security.md).
//
//   --insecure                     none; anybody who reaches the port can join, read and stop the job
//   --tls-cert, --tls-key, --tls-ca  the user's certificates; a token given as well is asked for on every call
//   --token-file, COMPOSER_TOKEN   the token of the job, the same on every node
//   several nodes, none of these   a token in the user's own configuration folder, made at the first need: nodes that
//                                  share the home folder (most clusters) share it. Others are refused and told so.
//   one node, none of these        none: the port is on the loopback device
//
// Under Slurm the user's own token is mixed with the job's id, so that each job has one of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/env.h"
#include "launcher/options/service_flags.h"
#include "rendezvous/transport/credentials.h"

namespace composer {

// Plain data: it crosses a fork before gRPC is there.
struct JobSecurity {
  std::string token;   // "": none
  std::string origin;  // of the token, for messages
  TlsFiles tls;        // empty names: none
  bool insecure = false;
};

// Reads the token's file, or makes the user's own. kInvalidArgument, naming the flag or variable: a file that others can
// read, too short a token, TLS files that do not come all three, --insecure with any of the others, no folder for a token.
absl::StatusOr<JobSecurity> ChooseSecurity(const SecurityFlags& flags, const Environment& environment,
                                           bool several_nodes);

// What the processes of the job use; makes keys, about 50 ms.
absl::StatusOr<Credentials> MakeCredentials(const JobSecurity& security);

// The flags that make a `composer serve` choose the same, and the variable that carries the token: it is never in argv.
std::vector<std::string> SecurityArguments(const JobSecurity& security);
void PassToken(const JobSecurity& security, Environment& environment);
inline constexpr char kTokenVariable[] = "COMPOSER_TOKEN";

}  // namespace composer
