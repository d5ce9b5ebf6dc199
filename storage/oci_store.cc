// SPDX-License-Identifier: Apache-2.0
#include "storage/oci_store.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "storage/cloud_answers.h"
#include "storage/leftovers.h"
#include "storage/object_requests.h"
#include "storage/s3_answers.h"

namespace composer {
namespace {

constexpr char kOciAttempt[] = "opc-meta-composer-attempt";

// The same statuses as S3's, with the message of Oracle's JSON.
absl::Status StatusOfOci(const HttpResponse& response, const std::string& where) {
  const std::string why = OciError(response.body);
  const absl::Status status = StatusOfAnswer(response, where);
  return absl::Status(status.code(), absl::StrCat(status.message(), why.empty() ? "" : " ", why));
}

}  // namespace

std::string OciStore::ObjectName(const std::string& key) const {
  return options_.prefix.empty() ? key : absl::StrCat(options_.prefix, "/", key);
}

std::string OciStore::Location(const std::string& key) const {
  return absl::StrCat("oci://", options_.bucket, "/", ObjectName(key));
}

absl::StatusOr<RepeatedAnswer> OciStore::Send(HttpRequest request, const std::string& where) {
  request.origin = options_.endpoint;
  const auto sign = [&](HttpRequest& one) { return SignOciRequest(options_.credentials, clock_.Now(), one); };
  const auto judge = [&](const HttpResponse& response) {
    const bool busy = IsRetryable(response.status, "") || absl::StartsWith(OciError(response.body), "Concurrent");
    return busy ? absl::UnavailableError(StatusOfOci(response, where).message()) : absl::OkStatus();
  };
  absl::StatusOr<RepeatedAnswer> answer = http_.Send(std::move(request), sign, judge);
  if (!answer.ok()) return Annotate(answer.status(), where);
  if (answer->response.status >= 300) return StatusOfOci(answer->response, where);
  return answer;
}

absl::StatusOr<std::string> OciStore::Namespace(const std::string& where) {
  {
    const absl::MutexLock lock(&mutex_);
    if (!namespace_.empty()) return namespace_;
  }
  HttpRequest request;
  request.path = "/n/";
  ASSIGN_OR_RETURN(const RepeatedAnswer answer, Send(request, where));
  ASSIGN_OR_RETURN(std::string found, ParseOciNamespace(answer.response.body));
  const absl::MutexLock lock(&mutex_);
  namespace_ = found;
  return found;
}

absl::StatusOr<RepeatedAnswer> OciStore::Ask(const char* method, const std::string& what, HttpRequest request) {
  const bool of_object = what.size() > 2;
  const std::string where =
      absl::StrCat("oci://", options_.bucket, of_object ? "/" : "", of_object ? what.substr(2) : "");
  ASSIGN_OR_RETURN(const std::string in, Namespace(where));
  request.method = method;
  request.path = absl::StrCat("/n/", in, "/b/", options_.bucket, "/", what);
  return Send(std::move(request), where);
}

absl::Status OciStore::Write(const std::string& key, Pieces pieces, bool create_only) {
  RETURN_IF_ERROR(CheckKey(key));
  const std::string attempt = NewWriteAttempt(), object = ObjectName(key);
  absl::Status status;
  if (SizeOfPieces(pieces) > options_.part_bytes) {
    status = WriteInParts(object, pieces, create_only, attempt);
  } else {
    HttpRequest request;
    request.body = pieces;
    request.headers = {{"content-type", "application/octet-stream"}, {kOciAttempt, attempt}};
    if (create_only) request.headers.emplace_back("if-none-match", "*");
    status = Ask("PUT", "o/" + object, request).status();
  }
  // A try without an answer may have made the object, and then its upload is over.
  if (status.ok() || absl::IsUnavailable(status) || absl::IsPermissionDenied(status)) return status;
  const absl::StatusOr<RepeatedAnswer> found = Ask("HEAD", "o/" + object, {});
  return found.ok() && found->response.Header(kOciAttempt) == attempt ? absl::OkStatus() : status;
}

absl::Status OciStore::WriteInParts(const std::string& object, Pieces pieces, bool create_only,
                                    const std::string& attempt) {
  const std::string text = nlohmann::json{{"object", object}, {"metadata", {{kOciAttempt, attempt}}}}.dump();
  const absl::string_view begin_body[] = {text};
  HttpRequest begin, commit;
  begin.body = begin_body;
  if (create_only) begin.headers = {{"if-none-match", "*"}};
  ASSIGN_OR_RETURN(const RepeatedAnswer begun, Ask("POST", "u", begin));
  ASSIGN_OR_RETURN(const std::string id, ParseOciUploadId(begun.response.body));
  const absl::StatusOr<std::string> parts = UploadParts(object, pieces, id);
  absl::Status status = parts.status();
  if (status.ok()) {
    const absl::string_view commit_body[] = {*parts};
    commit.body = commit_body;
    commit.query = {{"uploadId", id}};
    if (create_only) commit.headers = {{"if-none-match", "*"}};
    status = Ask("POST", "u/" + object, commit).status();
  }
  if (!status.ok() && !absl::IsCancelled(status)) Abort({object, id}).IgnoreError();
  return status;
}

absl::StatusOr<std::string> OciStore::UploadParts(const std::string& object, Pieces pieces, const std::string& id) {
  auto parts = nlohmann::json::array();
  const int64_t size = SizeOfPieces(pieces);
  const int64_t length = std::max(options_.part_bytes, (size + options_.most_parts - 1) / options_.most_parts);
  for (int64_t number = 0; number * length < size; ++number) {
    const std::vector<absl::string_view> part =
        CutPieces(pieces, number * length, std::min((number + 1) * length, size));
    HttpRequest request;
    request.body = part;
    request.headers = {{"content-type", "application/octet-stream"}};
    request.query = {{"uploadId", id}, {"uploadPartNum", absl::StrCat(number + 1)}};
    ASSIGN_OR_RETURN(const RepeatedAnswer answer, Ask("PUT", "u/" + object, request));
    const std::string etag(answer.response.Header("etag"));
    if (etag.empty()) return absl::InternalError(absl::StrCat(object, ": the server gave a part no etag"));
    parts.push_back({{"partNum", number + 1}, {"etag", etag}});
  }
  return nlohmann::json{{"partsToCommit", parts}}.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<int64_t> OciStore::Size(const std::string& key) {
  RETURN_IF_ERROR(CheckKey(key));
  ASSIGN_OR_RETURN(const RepeatedAnswer answer, Ask("HEAD", "o/" + ObjectName(key), {}));
  return SizeOfAnswer(answer.response, Location(key));
}

absl::Status OciStore::Read(const std::string& key, int64_t offset, absl::Span<char> into) {
  return ReadRange(*this, key, offset, into,
                   [&](HttpRequest request) { return Ask("GET", "o/" + ObjectName(key), std::move(request)); });
}

absl::StatusOr<std::vector<OciStore::Upload>> OciStore::Uploads() {
  std::vector<Upload> uploads;
  for (std::string page;;) {
    HttpRequest request;
    if (!page.empty()) request.query = {{"page", page}};
    ASSIGN_OR_RETURN(const RepeatedAnswer answer, Ask("GET", "u", request));
    ASSIGN_OR_RETURN(const auto listed, ParseOciUploads(answer.response.body));
    for (const auto& [object, id] : listed) uploads.push_back({object, id});
    const std::string next(answer.response.Header("opc-next-page"));
    if (next.empty() || next == page) return uploads;
    page = next;
  }
}

absl::Status OciStore::Abort(const Upload& upload) {
  HttpRequest request;
  request.query = {{"uploadId", upload.id}};
  const absl::Status status = Ask("DELETE", "u/" + upload.object, request).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::StatusOr<std::vector<std::string>> OciStore::List(const std::string& folder) {
  if (!folder.empty()) RETURN_IF_ERROR(CheckKey(folder));
  const std::string below = options_.prefix.empty() ? "" : options_.prefix + "/";
  const std::string prefix = folder.empty() ? below : absl::StrCat(below, folder, "/");
  std::vector<std::string> keys;
  for (std::string start;;) {
    HttpRequest request;
    if (!prefix.empty()) request.query.emplace_back("prefix", prefix);
    if (!start.empty()) request.query.emplace_back("start", start);
    ASSIGN_OR_RETURN(const RepeatedAnswer answer, Ask("GET", "o", request));
    ASSIGN_OR_RETURN(const OciPage page, ParseOciList(answer.response.body));
    for (absl::string_view name : page.names) {
      if (absl::ConsumePrefix(&name, below) && CheckKey(name).ok()) keys.emplace_back(name);  // others are not ours
    }
    if (page.next.empty() || page.next == start) break;
    start = page.next;
  }
  // Whoever may not list uploads has no leftovers of them to see.
  for (const Upload& upload : Uploads().value_or(std::vector<Upload>())) {
    absl::string_view name = upload.object;
    if (!absl::StartsWith(name, prefix) || !absl::ConsumePrefix(&name, below) || !CheckKey(name).ok()) continue;
    const std::string key(name);
    keys.push_back(JoinPath(DirName(key), absl::StrCat(kLeftoverPrefix, BaseName(key))));
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());  // there may be two uploads of one key
  return keys;
}

absl::Status OciStore::Delete(const std::string& key) {
  if (IsLeftover(key)) {
    const std::string of = JoinPath(DirName(key), BaseName(key).substr(kLeftoverPrefix.size()));
    RETURN_IF_ERROR(CheckKey(of));
    ASSIGN_OR_RETURN(const std::vector<Upload> uploads, Uploads());
    for (const Upload& upload : uploads) {
      if (upload.object == ObjectName(of)) RETURN_IF_ERROR(Abort(upload));
    }
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(CheckKey(key));
  const absl::Status status = Ask("DELETE", "o/" + ObjectName(key), {}).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status OciStore::DeleteTree(const std::string& folder) {
  RETURN_IF_ERROR(CheckKey(folder));
  ASSIGN_OR_RETURN(const std::vector<std::string> keys, List(folder));
  for (const std::string& key : keys) RETURN_IF_ERROR(Delete(key));
  return absl::OkStatus();
}

}  // namespace composer
