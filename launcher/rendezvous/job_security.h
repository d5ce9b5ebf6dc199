// Decides who may take part in a job, that is, where its secret comes from. Each launcher decides once
// (docs/security.md).
//
//   --insecure                     none; anybody who reaches the port can join, read and stop the job
//   --tls-cert, --tls-key, --tls-ca  the user's certificates; a token given as well is checked on every call
//   --token-file, COMPOSER_TOKEN   the token of the job, the same on every node
//   several nodes, none of these   a token in the user's own configuration folder, created when first needed: nodes
//                                  that share the home folder (most clusters) share it. Others are refused.
//   one node, none of these        none, because the port is on the loopback device
//
// Under Slurm the user's own token is mixed with the job's id, so that each job has its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/env.h"
#include "launcher/options/service_flags.h"
#include "rendezvous/transport/credentials.h"

namespace composer {

// Plain data, because it crosses a fork before gRPC exists.
struct JobSecurity {
  std::string token;   // "" if none
  std::string origin;  // of the token, for messages
  TlsFiles tls;        // empty names if none
  bool insecure = false;
};

// Reads the token's file, or creates the user's own. Returns kInvalidArgument, naming the flag or variable, for a file
// that others can read, a token that is too short, an incomplete set of TLS files, --insecure with any of the others,
// or if there is no folder for a token.
absl::StatusOr<JobSecurity> ChooseSecurity(const SecurityFlags& flags, const Environment& environment,
                                           bool several_nodes);

// Makes what the processes of the job use. Generates keys, which takes about 50 ms.
absl::StatusOr<Credentials> MakeCredentials(const JobSecurity& security);

// SecurityArguments returns the flags that make a `composer serve` choose the same. PassToken sets the variable that
// carries the token, which is never in argv.
std::vector<std::string> SecurityArguments(const JobSecurity& security);
void PassToken(const JobSecurity& security, Environment& environment);
inline constexpr char kTokenVariable[] = "COMPOSER_TOKEN";

}  // namespace composer
