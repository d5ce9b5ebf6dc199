// SPDX-License-Identifier: Apache-2.0
#include "data/codec/hashing.h"

#include <openssl/evp.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace composer {
namespace {

enum class HashKind { kOpenssl, kXxh32, kXxh64, kXxh3, kXxh128 };
struct HashFacts {
  const char* name;
  HashKind kind;
  const EVP_MD* (*digest)() = nullptr;
};
const std::array<HashFacts, 17> kHashes = {{{"blake2b", HashKind::kOpenssl, EVP_blake2b512},
                                            {"blake2s", HashKind::kOpenssl, EVP_blake2s256},
                                            {"md5", HashKind::kOpenssl, EVP_md5},
                                            {"sha1", HashKind::kOpenssl, EVP_sha1},
                                            {"sha224", HashKind::kOpenssl, EVP_sha224},
                                            {"sha256", HashKind::kOpenssl, EVP_sha256},
                                            {"sha384", HashKind::kOpenssl, EVP_sha384},
                                            {"sha3_224", HashKind::kOpenssl, EVP_sha3_224},
                                            {"sha3_256", HashKind::kOpenssl, EVP_sha3_256},
                                            {"sha3_384", HashKind::kOpenssl, EVP_sha3_384},
                                            {"sha3_512", HashKind::kOpenssl, EVP_sha3_512},
                                            {"sha512", HashKind::kOpenssl, EVP_sha512},
                                            {"xxh128", HashKind::kXxh128},
                                            {"xxh32", HashKind::kXxh32},
                                            {"xxh3_128", HashKind::kXxh128},
                                            {"xxh3_64", HashKind::kXxh3},
                                            {"xxh64", HashKind::kXxh64}}};

absl::StatusOr<const HashFacts*> FindHash(absl::string_view name) {
  for (const HashFacts& facts : kHashes) {
    if (name == facts.name) return &facts;
  }
  const auto append = [](std::string* out, const HashFacts& facts) { out->append(facts.name); };
  return absl::InvalidArgumentError(
      absl::StrCat("hash `", name, "` is not known; use one of ", absl::StrJoin(kHashes, ", ", append)));
}

template <typename Canonical>
std::string HexOf(const Canonical& canonical) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(canonical.digest), sizeof canonical.digest));
}

}  // namespace

absl::Status CheckHashName(absl::string_view algorithm) { return FindHash(algorithm).status(); }

absl::StatusOr<std::string> HashOf(absl::string_view algorithm, absl::string_view bytes) {
  ASSIGN_OR_RETURN(const HashFacts* const facts, FindHash(algorithm));
  XXH32_canonical_t hash32;
  XXH64_canonical_t hash64;
  XXH128_canonical_t hash128;
  switch (facts->kind) {
    case HashKind::kXxh32:
      XXH32_canonicalFromHash(&hash32, XXH32(bytes.data(), bytes.size(), 0));
      return HexOf(hash32);
    case HashKind::kXxh64:
      XXH64_canonicalFromHash(&hash64, XXH64(bytes.data(), bytes.size(), 0));
      return HexOf(hash64);
    case HashKind::kXxh3:
      XXH64_canonicalFromHash(&hash64, XXH3_64bits(bytes.data(), bytes.size()));
      return HexOf(hash64);
    case HashKind::kXxh128:
      XXH128_canonicalFromHash(&hash128, XXH3_128bits(bytes.data(), bytes.size()));
      return HexOf(hash128);
    case HashKind::kOpenssl:
      break;
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, facts->digest(), nullptr) != 1)
    return absl::InternalError(absl::StrCat("OpenSSL does not offer ", facts->name));
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest.data()), size));
}

}  // namespace composer
