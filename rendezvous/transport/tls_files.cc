// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/transport/tls_files.h"

#include <openssl/pem.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "rendezvous/transport/openssl_handles.h"

namespace composer {
namespace {

constexpr int64_t kMaxPemBytes = 1 << 20;
constexpr size_t kMaxCertificates = 1000;

absl::StatusOr<std::string> ReadPem(const std::string& flag, const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path, kMaxPemBytes);
  if (text.ok()) return text;
  return absl::InvalidArgumentError(absl::StrCat(flag, ": ", text.status().message()));
}

std::vector<CertificatePtr> ReadCertificates(absl::string_view pem) {
  const BioPtr bio = ReadBio(pem);
  std::vector<CertificatePtr> result;
  while (result.size() < kMaxCertificates) {
    CertificatePtr certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (certificate == nullptr) break;
    result.push_back(std::move(certificate));
  }
  ERR_clear_error();
  return result;
}

absl::Status Verify(const std::vector<CertificatePtr>& chain, const std::vector<CertificatePtr>& trusted,
                    absl::Time now, const TlsFiles& names) {
  const StorePtr store(X509_STORE_new());
  for (const CertificatePtr& certificate : trusted) X509_STORE_add_cert(store.get(), certificate.get());
  STACK_OF(X509)* between = sk_X509_new_null();  // borrows its elements
  for (size_t i = 1; i < chain.size(); ++i) sk_X509_push(between, chain[i].get());
  const StoreContextPtr context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), chain[0].get(), between);
  X509_STORE_CTX_set_time(context.get(), 0, absl::ToTimeT(now));
  const bool good = X509_verify_cert(context.get()) == 1;
  const int error = X509_STORE_CTX_get_error(context.get());
  sk_X509_free(between);
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--tls-cert: ", names.certificate, " is not accepted by --tls-ca ",
                                                 names.authority, ": ", X509_verify_cert_error_string(error)));
}

}  // namespace

absl::StatusOr<TlsPems> ReadTlsFiles(const TlsFiles& files) {
  TlsPems pems;
  ASSIGN_OR_RETURN(pems.authority, ReadPem("--tls-ca", files.authority));
  ASSIGN_OR_RETURN(pems.certificate, ReadPem("--tls-cert", files.certificate));
  ASSIGN_OR_RETURN(pems.key, ReadPem("--tls-key", files.key));
  return pems;
}

absl::Status CheckPems(const TlsPems& pems, const TlsFiles& names, absl::Time now) {
  const std::vector<CertificatePtr> chain = ReadCertificates(pems.certificate);
  if (chain.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--tls-cert: ", names.certificate, " holds no PEM certificate"));
  }
  const std::vector<CertificatePtr> trusted = ReadCertificates(pems.authority);
  if (trusted.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--tls-ca: ", names.authority, " holds no PEM certificate"));
  }
  const BioPtr bio = ReadBio(pems.key);
  char no_password[] = "";  // otherwise OpenSSL asks on the terminal
  const KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, no_password));
  if (key == nullptr) {
    ERR_clear_error();
    return absl::InvalidArgumentError(
        absl::StrCat("--tls-key: ", names.key, " holds no PEM private key, or one behind a password"));
  }
  if (X509_check_private_key(chain[0].get(), key.get()) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError(
        absl::StrCat("--tls-key: ", names.key, " is not the key of the certificate in ", names.certificate));
  }
  return Verify(chain, trusted, now, names);
}

}  // namespace composer
