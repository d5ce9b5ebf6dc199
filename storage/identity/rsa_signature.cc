// SPDX-License-Identifier: Apache-2.0
#include "storage/identity/rsa_signature.h"

#include <openssl/evp.h>
#include <openssl/pem.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace composer {
namespace {

// OpenSSL's own would ask at the terminal.
int GivePassPhrase(char* into, int size, int, void* pass_phrase) {
  const auto& text = *static_cast<const std::string*>(pass_phrase);
  const int length = std::min(size, static_cast<int>(text.size()));
  std::memcpy(into, text.data(), static_cast<size_t>(length));
  return length;
}

}  // namespace

absl::StatusOr<std::string> RsaSha256(const std::string& private_key, const std::string& pass_phrase,
                                      absl::string_view text) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> pem(
      BIO_new_mem_buf(private_key.data(), static_cast<int>(private_key.size())), BIO_free);
  std::string phrase = pass_phrase;
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      PEM_read_bio_PrivateKey(pem.get(), nullptr, GivePassPhrase, &phrase), EVP_PKEY_free);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  size_t size = 0;
  const bool is_rsa = key != nullptr && EVP_PKEY_base_id(key.get()) == EVP_PKEY_RSA;
  if (!is_rsa || EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key.get()) != 1 ||
      EVP_DigestSign(context.get(), nullptr, &size, bytes, text.size()) != 1) {
    return absl::InvalidArgumentError("not an RSA key in PEM, or encrypted with another pass phrase");
  }
  std::string signature(size, '\0');
  if (EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, bytes, text.size()) != 1)
    return absl::InternalError("the private key signs nothing");
  signature.resize(size);
  return signature;
}

}  // namespace composer
