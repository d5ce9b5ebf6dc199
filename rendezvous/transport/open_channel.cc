// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/transport/open_channel.h"

#include <grpcpp/create_channel.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "net/endpoint.h"
#include "net/network_facts.h"
#include "rendezvous/transport/grpc_settings.h"
#include "rendezvous/transport/openssl_handles.h"

namespace composer {
namespace {

constexpr absl::Duration kProbeLimit = absl::Seconds(2);
constexpr absl::Duration kFirstProbe = absl::Milliseconds(300);  // a server that starts along with us is soon up

// Returns a connected, non-blocking socket. Tries one address after the other, for at most `limit` each.
absl::StatusOr<int> ConnectToAny(const Endpoint& endpoint, absl::Duration limit) {
  ASSIGN_OR_RETURN(const std::vector<std::string> addresses, ResolveHost(endpoint.host));
  int last = 0;
  for (const std::string& address : addresses) {
    last = ConnectTcp(address, endpoint.port, limit);
    if (last >= 0) return last;
  }
  return absl::UnavailableError(std::strerror(-last));
}

// Runs a step of the handshake until it succeeds, fails (-1), or the time is over (0).
template <typename Step>
int Drive(SSL* ssl, int fd, absl::Time deadline, const Step& step) {
  while (true) {
    const int result = step();
    if (result > 0) return result;
    const int error = SSL_get_error(ssl, result);
    const bool again = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
    if (!again) return -1;
    if (!IsReadyBy(fd, error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, deadline)) return 0;
  }
}

SslContextPtr ClientContext(const TlsPems& pems) {
  SslContextPtr context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);  // checked afterwards, by SSL_get_verify_result
  static constexpr unsigned char kAlpn[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context.get(), kAlpn, sizeof(kAlpn));
  if (pems.key.empty()) return context;
  const BioPtr authority = ReadBio(pems.authority);
  while (CertificatePtr ca{PEM_read_bio_X509(authority.get(), nullptr, nullptr, nullptr)}) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), ca.get());
  }
  const BioPtr chain = ReadBio(pems.certificate), key = ReadBio(pems.key);
  const CertificatePtr leaf(PEM_read_bio_X509(chain.get(), nullptr, nullptr, nullptr));
  SSL_CTX_use_certificate(context.get(), leaf.get());
  while (X509* between = PEM_read_bio_X509(chain.get(), nullptr, nullptr, nullptr)) {
    SSL_CTX_add_extra_chain_cert(context.get(), between);  // takes ownership
  }
  const KeyPtr private_key(PEM_read_bio_PrivateKey(key.get(), nullptr, nullptr, nullptr));
  SSL_CTX_use_PrivateKey(context.get(), private_key.get());
  ERR_clear_error();
  return context;
}

absl::Status Refused(absl::string_view why) { return absl::UnauthenticatedError(why); }

// Checks the name that FromFiles' peers must carry, as gRPC does.
bool HasName(X509* certificate, const std::string& name) {
  return X509_check_host(certificate, name.data(), name.size(), 0, nullptr) == 1 ||
         X509_check_ip_asc(certificate, name.c_str(), 0) == 1;
}

absl::Status Shake(int fd, const Credentials& credentials, const std::string& name, absl::Time deadline) {
  ASSIGN_OR_RETURN(const TlsPems pems, credentials.Pems());
  const SslContextPtr context = ClientContext(pems);
  const SslPtr ssl(SSL_new(context.get()));
  SSL_set_fd(ssl.get(), fd);
  const int shaken = Drive(ssl.get(), fd, deadline, [&] { return SSL_connect(ssl.get()); });
  const CertificatePtr peer(SSL_get1_peer_certificate(ssl.get()));
  ERR_clear_error();
  if (!credentials.secure()) {
    return peer == nullptr ? absl::OkStatus()
                           : Refused("it asks for credentials and this side has none: give it the job's token");
  }
  if (peer == nullptr) {
    return shaken == 0 ? absl::OkStatus()
                       : Refused("it speaks no TLS: it was started without a token, or is something else");
  }
  if (const int verdict = static_cast<int>(SSL_get_verify_result(ssl.get())); verdict != X509_V_OK) {
    return Refused(absl::StrCat("its certificate is not of this job (", X509_verify_cert_error_string(verdict),
                                "): it has another token or authority than ", credentials.Describe()));
  }
  if (!name.empty() && !HasName(peer.get(), name)) {
    return Refused(absl::StrCat("its certificate is not for `", name, "`: see --tls-server-name"));
  }
  if (shaken == 0) return absl::OkStatus();
  // In TLS 1.3 the server judges our certificate after our side of the handshake is complete: an alert follows.
  char byte;
  const bool alerted = shaken < 0 || Drive(
                                         ssl.get(), fd, std::min(deadline, absl::Now() + absl::Milliseconds(500)),
                                         [&] { return SSL_read(ssl.get(), &byte, 1); }) < 0;
  if (!alerted) return absl::OkStatus();
  const std::string reason = TakeOpenSslError();
  if (reason.empty()) return absl::OkStatus();  // closed without an alert: the server is shutting down
  return Refused(absl::StrCat("it does not accept ", credentials.Describe(), ": ", reason));
}

}  // namespace

absl::Status Diagnose(const std::string& address, const Credentials& credentials, absl::Duration limit) {
  if (absl::StartsWith(address, "unix:")) return absl::OkStatus();
  const absl::Time deadline = absl::Now() + limit;
  ASSIGN_OR_RETURN(const std::vector<Endpoint> endpoints, ParseEndpoints(address, 0));
  ASSIGN_OR_RETURN(const int fd, ConnectToAny(endpoints[0], limit));
  const absl::Cleanup close_fd = [fd = fd] { close(fd); };
  const bool named = credentials.secure() && credentials.checks_names();
  const std::string name = !named                              ? ""
                           : credentials.server_name().empty() ? endpoints[0].host
                                                               : credentials.server_name();
  return Shake(fd, credentials, name, deadline);
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const std::string& address, const Credentials& credentials,
                                                           absl::Duration timeout, const Timeouts& timeouts) {
  grpc::ChannelArguments settings = ChannelSettings(Link::kNetwork, timeouts);
  if (!credentials.server_name().empty()) settings.SetSslTargetNameOverride(credentials.server_name());
  auto channel = grpc::CreateCustomChannel(address, credentials.ForChannel(), settings);
  const absl::Time deadline = absl::Now() + timeout;
  absl::Status last = absl::OkStatus();
  // Each probe is a connection of its own, so probes are rare when many nodes wait for one server, and back off.
  absl::Duration pause = timeouts.max_backoff;
  absl::Time probe_at = absl::Now() + kFirstProbe * (timeouts.max_backoff / Timeouts().max_backoff);
  while (true) {
    const absl::Time until = std::min(deadline, probe_at);
    if (channel->WaitForConnected(DeadlineAfter(until - absl::Now()))) return channel;
    if (absl::Now() >= deadline) break;
    last = Diagnose(address, credentials, std::min(kProbeLimit, deadline - absl::Now()));
    if (absl::IsUnauthenticated(last)) {
      return absl::UnauthenticatedError(absl::StrCat("the rendezvous at ", address, " answers, but ", last.message()));
    }
    probe_at = absl::Now() + pause;
    pause *= 2;
  }
  if (last.ok()) last = Diagnose(address, credentials, kProbeLimit);
  return absl::UnavailableError(absl::StrCat(
      "no rendezvous answers at ", address, " within ", absl::FormatDuration(timeout), last.ok() ? "" : " (",
      last.message(), last.ok() ? "" : ")", ": is the launcher of node 0 running, and can this machine reach it?"));
}

}  // namespace composer
