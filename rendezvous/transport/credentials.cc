// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/transport/credentials.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "rendezvous/transport/tls_files.h"
#include "rendezvous/transport/token_check.h"

namespace composer {

namespace tls = grpc::experimental;

struct Credentials::State {
  std::string description;
  std::string call_token;  // "": none
  TlsFiles files;          // no names: `pems` counts
  TlsPems pems;
  std::shared_ptr<tls::CertificateProviderInterface> provider;
  bool check_name = false;
};

absl::StatusOr<Credentials> Credentials::FromToken(absl::string_view token, std::string origin, absl::Time now) {
  ASSIGN_OR_RETURN(const TokenSecrets secrets, DeriveSecrets(token));
  auto state = std::make_shared<State>();
  state->description = absl::StrCat("the token of ", origin);
  state->call_token = secrets.call_token;
  ASSIGN_OR_RETURN(state->pems, MintIdentity(secrets, now));
  state->provider = std::make_shared<tls::StaticDataCertificateProvider>(
      state->pems.authority, std::vector<tls::IdentityKeyCertPair>{
                                 {.private_key = state->pems.key, .certificate_chain = state->pems.certificate}});
  Credentials result;
  result.state_ = std::move(state);
  return result;
}

absl::StatusOr<Credentials> Credentials::FromFiles(const TlsFiles& files, absl::string_view token, absl::Time now,
                                                   absl::Duration look_every) {
  auto state = std::make_shared<State>();
  ASSIGN_OR_RETURN(state->pems, ReadTlsFiles(files));
  RETURN_IF_ERROR(CheckPems(state->pems, files, now));
  if (!token.empty()) {
    ASSIGN_OR_RETURN(const TokenSecrets secrets, DeriveSecrets(token));
    state->call_token = secrets.call_token;
  }
  state->description = absl::StrCat("the certificate in ", files.certificate);
  state->files = files;
  state->check_name = true;
  const auto seconds = std::max<int64_t>(1, absl::ToInt64Seconds(look_every));
  state->provider = std::make_shared<tls::FileWatcherCertificateProvider>(files.key, files.certificate, files.authority,
                                                                          static_cast<unsigned int>(seconds));
  Credentials result;
  result.state_ = std::move(state);
  return result;
}

std::string Credentials::Describe() const { return secure() ? state_->description : "no credentials"; }

std::string Credentials::server_name() const { return secure() ? state_->files.server_name : ""; }

bool Credentials::checks_names() const { return secure() && state_->check_name; }

absl::StatusOr<TlsPems> Credentials::Pems() const {
  if (!secure()) return TlsPems();
  if (state_->files.certificate.empty()) return state_->pems;
  return ReadTlsFiles(state_->files);
}

std::shared_ptr<grpc::ServerCredentials> Credentials::ForServer() const {
  if (!secure()) return grpc::InsecureServerCredentials();
  tls::TlsServerCredentialsOptions options(state_->provider);
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.set_certificate_verifier(std::make_shared<tls::NoOpCertificateVerifier>());  // clients have no names
  auto result = tls::TlsServerCredentials(options);
  if (!state_->call_token.empty()) result->SetAuthMetadataProcessor(RequireToken(state_->call_token));
  return result;
}

std::shared_ptr<grpc::ChannelCredentials> Credentials::ForChannel() const {
  if (!secure()) return grpc::InsecureChannelCredentials();
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(state_->provider);
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_check_call_host(false);  // all calls go to one peer, whose name is checked once, with the certificate
  // The name in a minted certificate means nothing: its signature is the proof.
  if (!state_->check_name) options.set_certificate_verifier(std::make_shared<tls::NoOpCertificateVerifier>());
  auto result = tls::TlsCredentials(options);
  if (state_->call_token.empty()) return result;
  return grpc::CompositeChannelCredentials(result, SendToken(state_->call_token));
}

}  // namespace composer
