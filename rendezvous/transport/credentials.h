// What a process shows at the rendezvous port, and what it asks of the other side. One of
//   None        plain TCP; for a port that only this machine reaches, or --insecure
//   FromToken   mutual TLS with identities made out of the job's token (job_certificate.h), and the token on every call
//   FromFiles   mutual TLS with the user's certificates, read again when the files change, so that short-lived ones can
//               be rotated; with a token it is asked for on every call as well (certificates of one authority serve many
//               jobs: the token tells them apart)
// Both sides always show a certificate. A value: copies share what they hold. Threads: any.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rendezvous/transport/job_certificate.h"

namespace composer {

// PEM files. A rotation replaces key and certificate by renames; both are read together at each look.
struct TlsFiles {
  std::string certificate;  // this node's, followed by its intermediates
  std::string key;
  std::string authority;    // whom to trust
  std::string server_name;  // the name that must be in the other side's certificate; "": the address that was asked for
};

class Credentials {
 public:
  Credentials() = default;  // None

  // `origin`: where the token is from, for messages ("COMPOSER_TOKEN"). kInvalidArgument: a token too short.
  static absl::StatusOr<Credentials> FromToken(absl::string_view token, std::string origin, absl::Time now);
  // `token` may be "". kInvalidArgument, naming the file: missing, no PEM, a key that is not the certificate's, expired,
  // not signed by the authority. `look_every`: at least a second.
  static absl::StatusOr<Credentials> FromFiles(const TlsFiles& files, absl::string_view token, absl::Time now,
                                               absl::Duration look_every = absl::Seconds(10));

  bool secure() const { return state_ != nullptr; }
  // "no credentials", "the token of COMPOSER_TOKEN", "the certificate in node.pem"
  std::string Describe() const;

  std::shared_ptr<grpc::ServerCredentials> ForServer() const;
  std::shared_ptr<grpc::ChannelCredentials> ForChannel() const;
  // As they are now; empty texts when not secure. Errors of the files.
  absl::StatusOr<TlsPems> Pems() const;
  // "" unless the other side's certificate must carry this name.
  std::string server_name() const;
  // Whether the other side's certificate must carry its name: yes for FromFiles.
  bool checks_names() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace composer
