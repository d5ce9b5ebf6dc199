// SPDX-License-Identifier: Apache-2.0
#include "storage/s3_requests.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace composer {
namespace {

// Converts "https://s3.example.com" and "b" to "https://b.s3.example.com".
std::string VirtualOrigin(absl::string_view endpoint, absl::string_view bucket) {
  const size_t host = endpoint.find("://") + 3;
  return absl::StrCat(endpoint.substr(0, host), bucket, ".", endpoint.substr(host));
}

}  // namespace

absl::Status S3Requests::Sign(HttpRequest& request) {
  ASSIGN_OR_RETURN(const SigningKey key, keys_.Get());
  if (!key.bearer_token.empty()) {
    request.headers.emplace_back("authorization", "Bearer " + key.bearer_token);
    return absl::OkStatus();
  }
  // TLS already protects the body, and hashing it again would cost as much as sending it.
  const bool tls = absl::StartsWith(request.origin, "https://");
  const std::string hash = tls && !request.body.empty() ? std::string(kUnsignedPayload) : Sha256Hex(request.body);
  SignRequest(key, {bucket_.region, "s3"}, clock_.Now() + absl::Seconds(skew_seconds_.load()), hash, request);
  return absl::OkStatus();
}

void S3Requests::CorrectClock(const HttpResponse& response) {
  absl::Time server;
  std::string error;
  if (!absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", std::string(response.Header("date")), &server, &error)) return;
  skew_seconds_ = absl::ToInt64Seconds(server - clock_.Now());
  LOG(WARNING) << "this machine's clock is " << -skew_seconds_.load() << " s ahead of " << bucket_.endpoint
               << ": requests are signed with the server's time";
}

absl::StatusOr<S3Answer> S3Requests::Send(HttpRequest request) {
  request.origin = bucket_.path_style ? bucket_.endpoint : VirtualOrigin(bucket_.endpoint, bucket_.name);
  request.path =
      bucket_.path_style ? absl::StrCat("/", bucket_.name, "/", request.path) : absl::StrCat("/", request.path);
  const std::string what = absl::StrCat(request.method, " ", UrlOf(request));
  bool renewed = false;
  const auto judge = [&](const HttpResponse& response) {
    const std::string code = response.status < 300 ? "" : ParseS3Error(response.body).code;
    if (code == "RequestTimeTooSkewed") CorrectClock(response);
    const bool expired = code == "ExpiredToken" && !std::exchange(renewed, true);
    if (expired) keys_.Forget();
    return expired || IsRetryable(response.status, code) ? StatusOfAnswer(response, what) : absl::OkStatus();
  };
  return http_.Send(std::move(request), [&](HttpRequest& one) { return Sign(one); }, judge);
}

}  // namespace composer
