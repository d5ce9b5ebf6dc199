// SPDX-License-Identifier: Apache-2.0
#include "storage/s3_store.h"

#include <openssl/evp.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "base/file.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "storage/leftovers.h"
#include "storage/object_requests.h"

namespace composer {
namespace {

constexpr int64_t kMostParts = 10'000;

constexpr size_t kMostDeleted = 1000;  // per request

// Returns the digest as in the header content-md5; S3 requires it where a body covers many objects.
std::string Md5Base64(absl::string_view text) {
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned int length = 0;
  CHECK(EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(digest.data()), &length, EVP_md5(),
                   nullptr) == 1);
  return absl::Base64Escape(absl::string_view(digest).substr(0, length));
}

}  // namespace

S3Store::S3Store(Options options, Http& http, std::shared_ptr<S3KeySource> keys, Clock& clock)
    : options_(std::move(options)),
      keys_(std::move(keys)),
      requests_(options_.bucket, http, *keys_, clock, options_.retry) {}

std::string S3Store::ObjectName(const std::string& key) const {
  return options_.prefix.empty() ? key : absl::StrCat(options_.prefix, "/", key);
}

std::string S3Store::Location(const std::string& key) const {
  return absl::StrCat(options_.bucket.scheme, "://", options_.bucket.name, "/", ObjectName(key));
}

absl::StatusOr<S3Answer> S3Store::Ask(const char* method, const std::string& key, HttpRequest request) {
  request.method = method;
  request.path = ObjectName(key);
  absl::StatusOr<S3Answer> answer = requests_.Send(std::move(request));
  if (!answer.ok()) return Annotate(answer.status(), Location(key));
  if (answer->response.status >= 300) {
    // HEAD has no body that would say what is wrong.
    absl::Status status = StatusOfAnswer(answer->response, Location(key));
    if (!(absl::IsAlreadyExists(status) && answer->was_repeated)) return status;
  }
  return answer;
}

absl::Status S3Store::Put(const std::string& key, Pieces pieces) { return Write(key, pieces, IfPresent::kReplace); }
absl::Status S3Store::PutIfAbsent(const std::string& key, Pieces pieces) {
  return Write(key, pieces, IfPresent::kFail);
}

absl::Status S3Store::Write(const std::string& key, Pieces pieces, IfPresent if_present) {
  RETURN_IF_ERROR(CheckKey(key));
  const int64_t size = SizeOfPieces(pieces);
  const std::string attempt = NewWriteAttempt();
  return size <= options_.part_bytes ? WriteWhole(key, pieces, if_present, attempt)
                                     : WriteInParts(key, pieces, size, if_present, attempt);
}

void S3Store::AddCondition(IfPresent if_present, HttpRequest& request) const {
  if (if_present == IfPresent::kReplace) return;
  if (options_.bucket.create_only == S3Bucket::CreateOnly::kIfNoneMatch) {
    request.headers.emplace_back("if-none-match", "*");
  } else {
    request.headers.emplace_back("x-goog-if-generation-match", "0");
  }
}

absl::Status S3Store::WriteWhole(const std::string& key, Pieces pieces, IfPresent if_present,
                                 const std::string& attempt) {
  HttpRequest request;
  request.body = pieces;
  request.headers = {{"content-type", "application/octet-stream"}, {options_.bucket.attempt_header, attempt}};
  AddCondition(if_present, request);
  ASSIGN_OR_RETURN(const S3Answer answer, Ask("PUT", key, request));
  if (answer.response.status != 412) return absl::OkStatus();
  ASSIGN_OR_RETURN(const bool own, IsOwn(key, attempt));
  return own ? absl::OkStatus() : StatusOfAnswer(answer.response, Location(key));
}

absl::StatusOr<bool> S3Store::IsOwn(const std::string& key, const std::string& attempt) {
  ASSIGN_OR_RETURN(const S3Answer answer, Ask("HEAD", key, {}));
  return answer.response.Header(options_.bucket.attempt_header) == attempt;
}

absl::Status S3Store::WriteInParts(const std::string& key, Pieces pieces, int64_t size, IfPresent if_present,
                                   const std::string& attempt) {
  HttpRequest begin;
  begin.query = {{"uploads", ""}};
  begin.headers = {{"content-type", "application/octet-stream"}, {options_.bucket.attempt_header, attempt}};
  ASSIGN_OR_RETURN(const S3Answer begun, Ask("POST", key, begin));
  ASSIGN_OR_RETURN(const std::string id, ParseS3UploadId(begun.response.body));
  const absl::StatusOr<std::string> parts = UploadParts(key, pieces, size, id);
  const absl::Status status = parts.ok() ? CompleteUpload(key, id, *parts, if_present, attempt) : parts.status();
  if (!status.ok()) Abort(key, id).IgnoreError();  // if this fails, the upload is a leftover
  return status;
}

// Uploads with a few threads; returns the XML list of the parts.
absl::StatusOr<std::string> S3Store::UploadParts(const std::string& key, Pieces pieces, int64_t size,
                                                 const std::string& id) {
  const int64_t part = std::max(options_.part_bytes, (size + kMostParts - 1) / kMostParts);
  const int64_t count = (size + part - 1) / part;
  std::vector<std::string> tags(static_cast<size_t>(count));
  std::atomic<int64_t> next{0};
  absl::Mutex mutex;
  absl::Status failure;
  const auto upload = [&] {
    for (int64_t i = next++; i < count; i = next++) {
      const std::vector<absl::string_view> body = CutPieces(pieces, i * part, std::min((i + 1) * part, size));
      HttpRequest request;
      request.body = body;
      request.query = {{"partNumber", absl::StrCat(i + 1)}, {"uploadId", id}};
      const absl::StatusOr<S3Answer> answer = Ask("PUT", key, request);
      if (answer.ok()) tags[static_cast<size_t>(i)] = std::string(answer->response.Header("etag"));
      if (answer.ok() && !tags[static_cast<size_t>(i)].empty()) continue;
      const absl::MutexLock lock(&mutex);
      failure.Update(answer.ok() ? absl::InternalError(Location(key) + ": a part was stored without an ETag")
                                 : answer.status());
      next = count;
    }
  };
  std::vector<std::thread> threads;
  for (int64_t i = 1; i < std::min<int64_t>(options_.max_parallel_parts, count); ++i) threads.emplace_back(upload);
  upload();
  for (std::thread& thread : threads) thread.join();
  RETURN_IF_ERROR(failure);
  std::string xml = "<CompleteMultipartUpload>";
  for (size_t i = 0; i < tags.size(); ++i)
    absl::StrAppend(&xml, "<Part><PartNumber>", i + 1, "</PartNumber><ETag>", tags[i], "</ETag></Part>");
  return xml + "</CompleteMultipartUpload>";
}

absl::Status S3Store::CompleteUpload(const std::string& key, const std::string& id, const std::string& parts,
                                     IfPresent if_present, const std::string& attempt) {
  HttpRequest request;
  const absl::string_view body[] = {parts};
  request.body = body;
  request.query = {{"uploadId", id}};
  request.headers = {{"content-type", "application/xml"}};
  AddCondition(if_present, request);
  const absl::StatusOr<S3Answer> answer = Ask("POST", key, request);
  // A try without an answer may have succeeded: then the upload is gone, or the object exists.
  const bool may_be_done = absl::IsNotFound(answer.status()) || (answer.ok() && answer->response.status == 412);
  if (may_be_done) {
    const absl::StatusOr<bool> own = IsOwn(key, attempt);
    if (own.ok() && *own) return absl::OkStatus();
    return answer.ok() ? StatusOfAnswer(answer->response, Location(key)) : answer.status();
  }
  RETURN_IF_ERROR(answer.status());
  // Status 200 may carry an error.
  const S3Error error = ParseS3Error(answer->response.body);
  if (error.code.empty()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(Location(key), ": ", error.code, ": ", error.message));
}

absl::StatusOr<int64_t> S3Store::Size(const std::string& key) {
  RETURN_IF_ERROR(CheckKey(key));
  ASSIGN_OR_RETURN(const S3Answer answer, Ask("HEAD", key, {}));
  return SizeOfAnswer(answer.response, Location(key));
}

absl::Status S3Store::Read(const std::string& key, int64_t offset, absl::Span<char> into) {
  return ReadRange(*this, key, offset, into, [&](HttpRequest request) { return Ask("GET", key, std::move(request)); });
}

absl::StatusOr<std::vector<std::string>> S3Store::List(const std::string& folder) {
  if (!folder.empty()) RETURN_IF_ERROR(CheckKey(folder));
  const std::string below = NamePrefix(), prefix = folder.empty() ? below : absl::StrCat(below, folder, "/");
  std::vector<std::string> keys;
  for (std::string token;;) {
    HttpRequest request;
    request.method = "GET";
    request.query = {{"list-type", "2"}, {"prefix", prefix}};
    if (!token.empty()) request.query.emplace_back("continuation-token", token);
    absl::StatusOr<S3Answer> answer = requests_.Send(request);
    if (!answer.ok()) return Annotate(answer.status(), Location(folder));
    if (answer->response.status != 200) return StatusOfAnswer(answer->response, Location(folder));
    ASSIGN_OR_RETURN(S3Page page, ParseS3List(answer->response.body));
    for (absl::string_view key : page.keys) {
      if (absl::ConsumePrefix(&key, below) && CheckKey(key).ok()) keys.emplace_back(key);  // others are not ours
    }
    if (page.next.empty()) break;
    token = std::move(page.next);
  }
  for (const S3Upload& upload : Uploads(prefix)) {
    const std::string key = upload.key.substr(below.size());
    if (CheckKey(key).ok()) keys.push_back(JoinPath(DirName(key), absl::StrCat(kLeftoverPrefix, BaseName(key))));
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());  // there may be two uploads of one key
  return keys;
}

std::string S3Store::NamePrefix() const { return options_.prefix.empty() ? "" : options_.prefix + "/"; }

std::vector<S3Upload> S3Store::Uploads(const std::string& name_prefix) {
  std::vector<S3Upload> uploads;
  S3UploadsPage page;
  while (tells_uploads_) {
    HttpRequest request;
    request.method = "GET";
    request.query = {{"uploads", ""}, {"prefix", name_prefix}};
    if (!page.next_key.empty()) {
      request.query.emplace_back("key-marker", page.next_key);
      request.query.emplace_back("upload-id-marker", page.next_id);
    }
    const absl::StatusOr<S3Answer> answer = requests_.Send(request);
    if (!answer.ok()) break;
    absl::StatusOr<S3UploadsPage> parsed = absl::InternalError("");
    if (answer->response.status == 200) parsed = ParseS3Uploads(answer->response.body);
    if (!parsed.ok()) {
      tells_uploads_ = false;
      break;
    }
    page = *std::move(parsed);
    for (S3Upload& upload : page.uploads) {
      if (absl::StartsWith(upload.key, name_prefix)) uploads.push_back(std::move(upload));
    }
    if (page.next_key.empty()) break;
  }
  return uploads;
}

absl::Status S3Store::Abort(const std::string& key, const std::string& id) {
  HttpRequest request;
  request.query = {{"uploadId", id}};
  const absl::Status status = Ask("DELETE", key, request).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status S3Store::AbortUploads(const std::string& key) {
  const std::string name = ObjectName(key);
  for (const S3Upload& upload : Uploads(name)) {
    if (upload.key == name) RETURN_IF_ERROR(Abort(key, upload.id));
  }
  return absl::OkStatus();
}

absl::Status S3Store::Delete(const std::string& key) {
  if (IsLeftover(key)) {
    const std::string of = JoinPath(DirName(key), BaseName(key).substr(kLeftoverPrefix.size()));
    RETURN_IF_ERROR(CheckKey(of));
    return AbortUploads(of);
  }
  RETURN_IF_ERROR(CheckKey(key));
  const absl::Status status = Ask("DELETE", key, {}).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status S3Store::DeleteTree(const std::string& folder) {
  RETURN_IF_ERROR(CheckKey(folder));
  ASSIGN_OR_RETURN(const std::vector<std::string> keys, List(folder));
  std::vector<std::string> objects;
  for (const std::string& key : keys) {
    if (!IsLeftover(key)) objects.push_back(key);
    if (IsLeftover(key)) RETURN_IF_ERROR(Delete(key));
  }
  for (absl::Span<const std::string> left = objects; !left.empty();) {
    const absl::Span<const std::string> some = left.subspan(0, kMostDeleted);
    left.remove_prefix(some.size());
    const absl::Status status = some.size() > 1 && deletes_many_ ? DeleteMany(some) : absl::UnimplementedError("");
    if (status.ok()) continue;
    if (!absl::IsUnimplemented(status)) return status;
    for (const std::string& key : some) RETURN_IF_ERROR(Delete(key));
  }
  return absl::OkStatus();
}

absl::Status S3Store::DeleteMany(absl::Span<const std::string> keys) {
  std::string xml = "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>";
  for (const std::string& key : keys) {
    const std::string name = absl::StrReplaceAll(ObjectName(key), {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
    absl::StrAppend(&xml, "<Object><Key>", name, "</Key></Object>");
  }
  absl::StrAppend(&xml, "</Delete>");
  HttpRequest request;
  request.method = "POST";
  request.query = {{"delete", ""}};
  request.headers = {{"content-type", "application/xml"}, {"content-md5", Md5Base64(xml)}};
  const absl::string_view body[] = {xml};
  request.body = body;
  const std::string where = Location(DirName(keys[0]));
  const absl::StatusOr<S3Answer> answer = requests_.Send(request);
  if (!answer.ok()) return Annotate(answer.status(), where);
  const int code = answer->response.status;
  if (code == 403 || code == 401) return StatusOfAnswer(answer->response, where);
  const absl::StatusOr<std::string> errors =
      code == 200 ? ParseS3DeleteErrors(answer->response.body) : absl::UnimplementedError("");
  if (!errors.ok()) {
    deletes_many_ = false;
    return absl::UnimplementedError("");
  }
  return errors->empty() ? absl::OkStatus() : absl::UnavailableError(absl::StrCat(where, ": ", *errors));
}

}  // namespace composer
