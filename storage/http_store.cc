// SPDX-License-Identifier: Apache-2.0
#include "storage/http_store.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "storage/object_requests.h"
#include "storage/s3_answers.h"

namespace composer {

std::string HttpStore::Location(const std::string& key) const {
  return absl::StrCat(options_.origin, "/", options_.prefix, options_.prefix.empty() ? "" : "/", key);
}

absl::Status HttpStore::ReadOnly(const std::string& key) const {
  RETURN_IF_ERROR(CheckKey(key));
  return absl::PermissionDeniedError(
      absl::StrCat(Location(key),
                   ": a web server is only read from; write to a folder, s3://, gs://, oci:// or "
                   "azure://"));
}

absl::Status HttpStore::Put(const std::string& key, Pieces) { return ReadOnly(key); }
absl::Status HttpStore::PutIfAbsent(const std::string& key, Pieces) { return ReadOnly(key); }
absl::Status HttpStore::Delete(const std::string& key) { return ReadOnly(key); }
absl::Status HttpStore::DeleteTree(const std::string& folder) { return ReadOnly(folder); }

absl::StatusOr<std::vector<std::string>> HttpStore::List(const std::string& folder) {
  if (!folder.empty()) RETURN_IF_ERROR(CheckKey(folder));
  return absl::UnimplementedError(
      absl::StrCat(Location(folder), ": a web server does not list its files; name the file or the checkpoint itself"));
}

absl::StatusOr<HttpResponse> HttpStore::Ask(const char* method, const std::string& key, HttpRequest request) {
  RETURN_IF_ERROR(CheckKey(key));
  request.method = method;
  request.origin = options_.origin;
  request.path = absl::StrCat("/", options_.prefix, options_.prefix.empty() ? "" : "/", key);
  request.follow_redirects = true;
  const auto judge = [&](const HttpResponse& response) {
    return IsRetryable(response.status, "") ? StatusOfAnswer(response, Location(key)) : absl::OkStatus();
  };
  const auto nothing = [](HttpRequest&) { return absl::OkStatus(); };
  absl::StatusOr<RepeatedAnswer> answer = http_.Send(std::move(request), nothing, judge);
  if (!answer.ok()) return Annotate(answer.status(), Location(key));
  if (answer->response.status >= 300) return StatusOfAnswer(answer->response, Location(key));
  return std::move(answer->response);
}

absl::StatusOr<int64_t> HttpStore::Size(const std::string& key) {
  ASSIGN_OR_RETURN(const HttpResponse response, Ask("HEAD", key, {}));
  return SizeOfAnswer(response, Location(key));
}

absl::Status HttpStore::Read(const std::string& key, int64_t offset, absl::Span<char> into) {
  const auto wanted = static_cast<int64_t>(into.size());
  absl::Status status;
  bool ignored = false;
  if (wanted > 0) {
    HttpRequest request;
    request.into = into;
    request.headers = {{"range", absl::StrCat("bytes=", offset, "-", offset + wanted - 1)}};
    const absl::StatusOr<HttpResponse> answer = Ask("GET", key, request);
    if (answer.ok() && (answer->status == 206 || offset == 0)) return absl::OkStatus();
    ignored = answer.ok();
    status = answer.status();
    if (!ignored && !absl::IsOutOfRange(status)) return status;
  }
  ASSIGN_OR_RETURN(const int64_t size, Size(key));
  if (offset + wanted > size)
    return absl::OutOfRangeError(absl::StrCat(Location(key), " has ", size, " bytes and ends before"));
  if (wanted == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(Location(key), ": the server ignores ranges of bytes; serve the files with nginx or caddy"));
}

}  // namespace composer
