// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/transport/job_certificate.h"

#include <openssl/kdf.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/transport/openssl_handles.h"

namespace composer {
namespace {

// If any of these changes, old and new versions of Composer cannot connect to each other.
constexpr char kSalt[] = "composer rendezvous 1";
constexpr uint64_t kScryptN = 1 << 14, kScryptR = 8, kScryptP = 1;
constexpr uint64_t kScryptMemory = 64 << 20;
constexpr size_t kSeedBytes = 32;
constexpr char kAuthorityName[] = "composer job authority";

constexpr absl::Duration kBackdated = absl::Hours(24 * 30);
constexpr absl::Duration kLifetime = absl::Hours(24 * 3650);

absl::Status OpenSslError(absl::string_view what) {
  return absl::InternalError(absl::StrCat("cannot ", what, ": ", TakeOpenSslError()));
}

bool SetName(X509* certificate, X509_NAME* (*get)(const X509*), const char* common_name) {
  return X509_NAME_add_entry_by_txt(get(certificate), "CN", MBSTRING_ASC,
                                    reinterpret_cast<const unsigned char*>(common_name), -1, -1, 0) == 1;
}

bool AddExtension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// Returns a complete certificate except for its extensions and signature.
CertificatePtr NewCertificate(const char* name, EVP_PKEY* key, absl::Time now) {
  CertificatePtr certificate(X509_new());
  uint64_t serial = 0;
  if (certificate == nullptr || RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof(serial)) != 1)
    return nullptr;
  const bool ok = X509_set_version(certificate.get(), X509_VERSION_3) == 1 &&
                  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate.get()), serial >> 1 | 1) == 1 &&
                  ASN1_TIME_set(X509_getm_notBefore(certificate.get()), absl::ToTimeT(now - kBackdated)) != nullptr &&
                  ASN1_TIME_set(X509_getm_notAfter(certificate.get()), absl::ToTimeT(now + kLifetime)) != nullptr &&
                  SetName(certificate.get(), X509_get_subject_name, name) &&
                  SetName(certificate.get(), X509_get_issuer_name, kAuthorityName) &&
                  X509_set_pubkey(certificate.get(), key) == 1;
  return ok ? std::move(certificate) : nullptr;
}

CertificatePtr MakeAuthority(EVP_PKEY* key, absl::Time now) {
  CertificatePtr certificate = NewCertificate(kAuthorityName, key, now);
  X509* c = certificate.get();
  const bool ok = c != nullptr && AddExtension(c, c, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
                  AddExtension(c, c, NID_key_usage, "critical,keyCertSign") &&
                  AddExtension(c, c, NID_subject_key_identifier, "hash") && X509_sign(c, key, nullptr) > 0;
  return ok ? std::move(certificate) : nullptr;
}

CertificatePtr MakeLeaf(EVP_PKEY* key, X509* authority, EVP_PKEY* authority_key, absl::Time now) {
  CertificatePtr certificate = NewCertificate("composer node", key, now);
  X509* c = certificate.get();
  const bool ok = c != nullptr && AddExtension(c, authority, NID_basic_constraints, "critical,CA:FALSE") &&
                  AddExtension(c, authority, NID_key_usage, "critical,digitalSignature") &&
                  AddExtension(c, authority, NID_ext_key_usage, "serverAuth,clientAuth") &&
                  AddExtension(c, authority, NID_subject_alt_name, "DNS:composer-job") &&
                  X509_sign(c, authority_key, nullptr) > 0;
  return ok ? std::move(certificate) : nullptr;
}

std::string Text(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);  // NOLINT: OpenSSL's type
  return std::string(data, static_cast<size_t>(size));
}

std::string CertificateText(X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  return PEM_write_bio_X509(bio.get(), certificate) == 1 ? Text(bio.get()) : "";
}

std::string KeyText(EVP_PKEY* key) {
  const BioPtr bio(BIO_new(BIO_s_secmem()));
  return PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1 ? Text(bio.get())
                                                                                                   : "";
}

}  // namespace

absl::StatusOr<TokenSecrets> DeriveSecrets(absl::string_view token) {
  if (token.size() < kMinTokenBytes || token.size() > kMaxTokenBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the job's token has ", token.size(), " bytes, allowed are ",
                                                   kMinTokenBytes, " to ", kMaxTokenBytes,
                                                   "; `openssl rand -hex 32` makes a good one"));
  }
  unsigned char secrets[2 * kSeedBytes];
  if (EVP_PBE_scrypt(token.data(), token.size(), reinterpret_cast<const unsigned char*>(kSalt), sizeof(kSalt) - 1,
                     kScryptN, kScryptR, kScryptP, kScryptMemory, secrets, sizeof(secrets)) != 1) {
    return OpenSslError("derive the job's keys");
  }
  const absl::string_view bytes(reinterpret_cast<const char*>(secrets), sizeof(secrets));
  return TokenSecrets{std::string(bytes.substr(0, kSeedBytes)), absl::BytesToHexString(bytes.substr(kSeedBytes))};
}

absl::StatusOr<TlsPems> MintIdentity(const TokenSecrets& secrets, absl::Time now) {
  const auto* seed = reinterpret_cast<const unsigned char*>(secrets.authority_seed.data());
  const KeyPtr authority_key(
      EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed, secrets.authority_seed.size()));
  const KeyPtr key(EVP_EC_gen("P-256"));
  if (authority_key == nullptr || key == nullptr) return OpenSslError("make the job's keys");
  const CertificatePtr authority = MakeAuthority(authority_key.get(), now);
  if (authority == nullptr) return OpenSslError("make the job's authority");
  const CertificatePtr leaf = MakeLeaf(key.get(), authority.get(), authority_key.get(), now);
  if (leaf == nullptr) return OpenSslError("make this node's certificate");
  return TlsPems{CertificateText(authority.get()), CertificateText(leaf.get()), KeyText(key.get())};
}

}  // namespace composer
