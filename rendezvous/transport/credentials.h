// What a process presents at the rendezvous port, and what it requires of the other side. One of
//   None        plain TCP; for a port that only this machine reaches, or --insecure
//   FromToken   mutual TLS with identities made from the job's token (job_certificate.h), and the token on every call
//   FromFiles   mutual TLS with the user's certificates, reloaded when the files change, so that short-lived ones can
//               be rotated; a token given as well is required on every call (certificates of one authority serve many
//               jobs: the token tells them apart)
// Both sides always present a certificate. This is a value type: copies share what they hold. Thread-safe.
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

// Paths of PEM files. A rotation replaces key and certificate by renames; both are read together at each check.
struct TlsFiles {
  std::string certificate;  // this node's, followed by its intermediates
  std::string key;
  std::string authority;    // the authorities to trust
  std::string server_name;  // name that the other side's certificate must carry; "": the address used
};

class Credentials {
 public:
  Credentials() = default;  // None

  // `origin` says where the token is from, for messages ("COMPOSER_TOKEN"). kInvalidArgument: the token is too short or
  // too long.
  static absl::StatusOr<Credentials> FromToken(absl::string_view token, std::string origin, absl::Time now);
  // `token` may be "". kInvalidArgument, naming the file: it is missing or not PEM, the key does not match the
  // certificate, or the certificate is expired or not signed by the authority. `look_every` is at least a second.
  static absl::StatusOr<Credentials> FromFiles(const TlsFiles& files, absl::string_view token, absl::Time now,
                                               absl::Duration look_every = absl::Seconds(10));

  bool secure() const { return state_ != nullptr; }
  // Returns "no credentials", "the token of COMPOSER_TOKEN", "the certificate in node.pem", …
  std::string Describe() const;

  std::shared_ptr<grpc::ServerCredentials> ForServer() const;
  std::shared_ptr<grpc::ChannelCredentials> ForChannel() const;
  // Returns the current PEM texts; empty when not secure. Returns the errors of reading the files.
  absl::StatusOr<TlsPems> Pems() const;
  // Returns the name that the other side's certificate must carry, or "".
  std::string server_name() const;
  // Returns whether the other side's certificate must carry its name: true for FromFiles.
  bool checks_names() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace composer
