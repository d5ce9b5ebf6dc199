// OpenSSL's objects as unique_ptrs, and its error queue as text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace composer {

template <auto Free>
struct OpenSslDelete {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};

using BioPtr = std::unique_ptr<BIO, OpenSslDelete<BIO_free_all>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, OpenSslDelete<EVP_PKEY_free>>;
using CertificatePtr = std::unique_ptr<X509, OpenSslDelete<X509_free>>;
using ExtensionPtr = std::unique_ptr<X509_EXTENSION, OpenSslDelete<X509_EXTENSION_free>>;
using StorePtr = std::unique_ptr<X509_STORE, OpenSslDelete<X509_STORE_free>>;
using StoreContextPtr = std::unique_ptr<X509_STORE_CTX, OpenSslDelete<X509_STORE_CTX_free>>;
using SslContextPtr = std::unique_ptr<SSL_CTX, OpenSslDelete<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, OpenSslDelete<SSL_free>>;

// Returns a BIO that reads `text`, which must outlive it.
inline BioPtr ReadBio(absl::string_view text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Returns the first error on this thread's queue, or "" when there is none, and empties the queue.
inline std::string TakeOpenSslError() {
  const unsigned long code = ERR_peek_error();  // NOLINT: OpenSSL's type
  if (code == 0) return "";
  ERR_clear_error();
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : "unknown OpenSSL error";
}

}  // namespace composer
