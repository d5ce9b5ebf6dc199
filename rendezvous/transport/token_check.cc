// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/transport/token_check.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <map>
#include <utility>

namespace composer {
namespace {

constexpr char kHeader[] = "x-composer-token";

class Checker final : public grpc::AuthMetadataProcessor {
 public:
  explicit Checker(std::string token) : token_(std::move(token)) {}

  bool IsBlocking() const override { return false; }  // it takes a microsecond

  grpc::Status Process(const InputMetadata& given, grpc::AuthContext*, OutputMetadata* consumed,
                       OutputMetadata*) override {
    const auto [begin, end] = given.equal_range(kHeader);
    if (begin == end || std::next(begin) != end) {
      return {grpc::StatusCode::UNAUTHENTICATED, "the call carries no token of the job"};
    }
    const absl::string_view value(begin->second.data(), begin->second.size());
    if (!EqualInConstantTime(value, token_)) return {grpc::StatusCode::UNAUTHENTICATED, "not this job's token"};
    consumed->emplace(kHeader, std::string(value));
    return grpc::Status::OK;
  }

 private:
  const std::string token_;
};

class Sender final : public grpc::MetadataCredentialsPlugin {
 public:
  explicit Sender(std::string token) : token_(std::move(token)) {}

  bool IsBlocking() const override { return false; }
  const char* GetType() const override { return "composer-token"; }
  grpc::string DebugString() override { return "composer-token"; }  // never reveals the token
  grpc::Status GetMetadata(grpc::string_ref, grpc::string_ref, const grpc::AuthContext&,
                           std::multimap<grpc::string, grpc::string>* metadata) override {
    metadata->emplace(kHeader, token_);
    return grpc::Status::OK;
  }

 private:
  const std::string token_;
};

}  // namespace

bool EqualInConstantTime(absl::string_view a, absl::string_view b) {
  unsigned char left[SHA256_DIGEST_LENGTH], right[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(a.data()), a.size(), left);
  SHA256(reinterpret_cast<const unsigned char*>(b.data()), b.size(), right);
  return CRYPTO_memcmp(left, right, sizeof(left)) == 0;
}

std::shared_ptr<grpc::AuthMetadataProcessor> RequireToken(std::string call_token) {
  return std::make_shared<Checker>(std::move(call_token));
}

std::shared_ptr<grpc::CallCredentials> SendToken(std::string call_token) {
  return grpc::MetadataCredentialsFromPlugin(std::make_unique<Sender>(std::move(call_token)));
}

}  // namespace composer
