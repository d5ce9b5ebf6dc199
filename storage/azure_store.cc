// SPDX-License-Identifier: Apache-2.0
#include "storage/azure_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "storage/cloud_answers.h"
#include "storage/leftovers.h"
#include "storage/object_requests.h"
#include "storage/s3_answers.h"

namespace composer {
namespace {

constexpr int64_t kMostBlocks = 10'000;  // Azure allows 50,000
constexpr char kAzureAttempt[] = "x-ms-meta-composerattempt";

}  // namespace

std::string AzureStore::BlobName(const std::string& key) const {
  return options_.prefix.empty() ? key : absl::StrCat(options_.prefix, "/", key);
}

std::string AzureStore::Location(const std::string& key) const {
  return absl::StrCat("azure://", options_.container, "/", BlobName(key));
}

absl::StatusOr<RepeatedAnswer> AzureStore::Ask(const char* method, const std::string& name, HttpRequest request) {
  const std::string where = absl::StrCat("azure://", options_.container, "/", name);
  const size_t host = options_.endpoint.find("://") + 3, path = options_.endpoint.find('/', host);
  request.method = method;
  request.origin = options_.endpoint.substr(0, path);
  request.path = absl::StrCat(path == std::string::npos ? "" : options_.endpoint.substr(path), "/", options_.container,
                              name.empty() ? "" : "/", name);
  const auto sign = [&](HttpRequest& one) { return SignAzureRequest(options_.credentials, clock_.Now(), one); };
  const auto judge = [&](const HttpResponse& response) {
    const std::string code = response.status < 300 ? "" : ParseS3Error(response.body).code;
    const bool retry = IsRetryable(response.status, code) || code == "ServerBusy" || code == "OperationTimedOut";
    return retry ? absl::UnavailableError(StatusOfAnswer(response, where).message()) : absl::OkStatus();
  };
  absl::StatusOr<RepeatedAnswer> answer = http_.Send(std::move(request), sign, judge);
  if (!answer.ok()) return Annotate(answer.status(), where);
  if (answer->response.status < 300) return answer;
  const absl::Status status = StatusOfAnswer(answer->response, where);
  const bool exists = answer->response.status == 409 && ParseS3Error(answer->response.body).code == "BlobAlreadyExists";
  return exists ? absl::AlreadyExistsError(status.message()) : status;
}

absl::Status AzureStore::Write(const std::string& key, Pieces pieces, bool create_only) {
  RETURN_IF_ERROR(CheckKey(key));
  const std::string attempt = NewWriteAttempt();
  HttpRequest request;
  request.body = pieces;
  std::string list;
  absl::string_view list_body[1];
  if (BodySize(request) <= options_.part_bytes) {
    request.headers = {{"content-type", "application/octet-stream"}, {"x-ms-blob-type", "BlockBlob"}};
  } else {
    ASSIGN_OR_RETURN(list, UploadBlocks(key, pieces, attempt));
    list_body[0] = list;
    request.body = list_body;
    request.query = {{"comp", "blocklist"}};
    request.headers = {{"content-type", "application/xml"}};
  }
  request.headers.emplace_back(kAzureAttempt, attempt);
  if (create_only) request.headers.emplace_back("if-none-match", "*");
  const absl::Status status = Ask("PUT", BlobName(key), request).status();
  // A try without an answer may have made the blob; and with its blocks used up, a list of them is invalid.
  if (status.ok() || absl::IsUnavailable(status) || absl::IsPermissionDenied(status)) return status;
  const absl::StatusOr<RepeatedAnswer> found = Ask("HEAD", BlobName(key), {});
  if (!found.ok()) return status;
  if (found->response.Header(kAzureAttempt) == attempt) return absl::OkStatus();
  return create_only ? absl::AlreadyExistsError(status.message()) : status;
}

absl::StatusOr<std::string> AzureStore::UploadBlocks(const std::string& key, Pieces pieces,
                                                     const std::string& attempt) {
  std::string list = "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>";
  const int64_t size = SizeOfPieces(pieces);
  const int64_t length = std::max(options_.part_bytes, (size + kMostBlocks - 1) / kMostBlocks);
  for (int64_t number = 0; number * length < size; ++number) {
    const std::vector<absl::string_view> block =
        CutPieces(pieces, number * length, std::min((number + 1) * length, size));
    // All ids of a blob have one length, and none is another writer's.
    const std::string id = absl::Base64Escape(absl::StrFormat("%s%06d", attempt, number));
    HttpRequest request;
    request.body = block;
    request.query = {{"comp", "block"}, {"blockid", id}};
    RETURN_IF_ERROR(Ask("PUT", BlobName(key), request).status());
    absl::StrAppend(&list, "<Latest>", id, "</Latest>");
  }
  return list + "</BlockList>";
}

absl::StatusOr<int64_t> AzureStore::Size(const std::string& key) {
  RETURN_IF_ERROR(CheckKey(key));
  ASSIGN_OR_RETURN(const RepeatedAnswer answer, Ask("HEAD", BlobName(key), {}));
  return SizeOfAnswer(answer.response, Location(key));
}

absl::Status AzureStore::Read(const std::string& key, int64_t offset, absl::Span<char> into) {
  return ReadRange(*this, key, offset, into,
                   [&](HttpRequest request) { return Ask("GET", BlobName(key), std::move(request)); });
}

absl::StatusOr<std::vector<std::string>> AzureStore::List(const std::string& folder) {
  if (!folder.empty()) RETURN_IF_ERROR(CheckKey(folder));
  const std::string below = options_.prefix.empty() ? "" : options_.prefix + "/";
  std::vector<std::string> keys;
  for (std::string marker;;) {
    HttpRequest request;
    request.query = {{"restype", "container"}, {"comp", "list"}};
    const std::string prefix = folder.empty() ? below : absl::StrCat(below, folder, "/");
    if (!prefix.empty()) request.query.emplace_back("prefix", prefix);
    if (!marker.empty()) request.query.emplace_back("marker", marker);
    ASSIGN_OR_RETURN(const RepeatedAnswer answer, Ask("GET", "", request));
    ASSIGN_OR_RETURN(const AzurePage page, ParseAzureList(answer.response.body));
    for (absl::string_view name : page.names) {
      if (absl::ConsumePrefix(&name, below) && CheckKey(name).ok()) keys.emplace_back(name);  // others are not ours
    }
    if (page.next.empty() || page.next == marker) break;
    marker = page.next;
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

absl::Status AzureStore::Delete(const std::string& key) {
  RETURN_IF_ERROR(CheckKey(key));
  const absl::Status status = Ask("DELETE", BlobName(key), {}).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status AzureStore::DeleteTree(const std::string& folder) {
  RETURN_IF_ERROR(CheckKey(folder));
  ASSIGN_OR_RETURN(const std::vector<std::string> keys, List(folder));
  for (const std::string& key : keys) RETURN_IF_ERROR(Delete(key));
  return absl::OkStatus();
}

}  // namespace composer
