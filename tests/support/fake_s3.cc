// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fake_s3.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace composer {
namespace {

// Pieces may be empty with a null data pointer, from which absl::StrJoin would copy.
std::string Joined(absl::Span<const absl::string_view> pieces) {
  std::string text;
  for (const absl::string_view piece : pieces) text.append(piece.begin(), piece.end());
  return text;
}

std::string Find(const HttpPairs& pairs, absl::string_view name, std::string fallback = "") {
  for (const auto& [key, value] : pairs) {
    if (key == name) return value;
  }
  return fallback;
}

bool Has(const HttpPairs& pairs, absl::string_view name) { return Find(pairs, name, "\n") != "\n"; }

HttpPairs MetadataOf(const HttpRequest& request) {
  HttpPairs metadata;
  for (const auto& header : request.headers) {
    if (absl::StartsWith(header.first, "x-amz-meta-") || absl::StartsWith(header.first, "x-goog-meta-"))
      metadata.push_back(header);
  }
  return metadata;
}

HttpResponse Error(int status, absl::string_view code) {
  return {status, {}, absl::StrCat("<Error><Code>", code, "</Code><Message>fake</Message></Error>")};
}

bool CreateOnly(const HttpRequest& request) {
  return Find(request.headers, "if-none-match") == "*" || Find(request.headers, "x-goog-if-generation-match") == "0";
}

}  // namespace

void FakeS3::set_script(Script script) {
  const absl::MutexLock lock(&mutex_);
  script_ = std::move(script);
  requests_ = 0;
}

int FakeS3::requests() const {
  const absl::MutexLock lock(&mutex_);
  return requests_;
}

size_t FakeS3::uploads_left() const {
  const absl::MutexLock lock(&mutex_);
  return uploads_.size();
}

std::map<std::string, std::string> FakeS3::objects() const {
  const absl::MutexLock lock(&mutex_);
  std::map<std::string, std::string> contents;
  for (const auto& [path, object] : objects_) contents[path] = object.bytes;
  return contents;
}

absl::StatusOr<HttpResponse> FakeS3::Send(const HttpRequest& request) {
  const absl::MutexLock lock(&mutex_);
  const int number = requests_++;
  const Fault fault = script_ ? script_(number, request) : Fault::kNone;
  if (fault == Fault::kLostRequest || fault == Fault::kReset)
    return absl::UnavailableError("connection reset (injected)");
  if (fault == Fault::kSlowDown) return Error(503, "SlowDown");
  const bool bearer = Find(request.headers, "authorization") == "Bearer token";
  if (!bearer && (!Has(request.headers, "authorization") || !Has(request.headers, "x-amz-date")))
    return Error(403, "AccessDenied");
  if (bearer && Has(request.headers, "x-amz-meta-composer-attempt")) return Error(400, "InvalidArgument");
  HttpResponse response = Answer(request);
  if (fault == Fault::kLostAnswer) return absl::UnavailableError("the connection broke after the request (injected)");
  const bool filled = response.status == 200 || response.status == 206;
  if (!request.into.empty() && filled) {
    if (response.body.size() != request.into.size()) return absl::OutOfRangeError("an answer of another length");
    std::memcpy(request.into.data(), response.body.data(), response.body.size());
    response.body.clear();
  }
  return response;
}

HttpResponse FakeS3::Answer(const HttpRequest& request) {
  const std::string id = Find(request.query, "uploadId");
  if (Has(request.query, "list-type")) return List(request);
  if (request.method == "GET" && Has(request.query, "uploads")) return ListUploads(request);
  if (request.method == "POST" && Has(request.query, "uploads")) {
    const std::string fresh = absl::StrCat("upload-", uploads_begun_++);
    uploads_[fresh] = {request.path, MetadataOf(request), {}};
    return {200,
            {},
            absl::StrCat("<InitiateMultipartUploadResult><UploadId>", fresh,
                         "</UploadId></InitiateMultipartUploadResult>")};
  }
  if (request.method == "POST" && Has(request.query, "delete")) return DeleteMany(request);
  if (!id.empty() && uploads_.count(id) == 0) return Error(404, "NoSuchUpload");
  if (request.method == "POST") return Complete(request, id);
  if (request.method == "PUT" && !id.empty()) {
    int part = 0;
    if (!absl::SimpleAtoi(Find(request.query, "partNumber"), &part) || part < 1) return Error(400, "InvalidArgument");
    uploads_[id].parts[part] = Joined(request.body);
    return {200, {{"etag", absl::StrCat("\"", part, "\"")}}, ""};
  }
  if (request.method == "DELETE") {
    id.empty() ? objects_.erase(request.path) : uploads_.erase(id);
    return {204, {}, ""};
  }
  if (request.method == "PUT") return Store(request, {Joined(request.body), MetadataOf(request)});
  const auto object = objects_.find(request.path);
  if (object == objects_.end()) return Error(404, "NoSuchKey");
  return Get(request, object->second);
}

HttpResponse FakeS3::DeleteMany(const HttpRequest& request) {
  if (!deletes_many_) return Error(501, "NotImplemented");
  if (!Has(request.headers, "content-md5")) return Error(400, "InvalidRequest");
  const std::string xml = Joined(request.body);
  for (size_t at = 0; (at = xml.find("<Key>", at)) != std::string::npos;) {
    at += 5;
    objects_.erase(request.path + xml.substr(at, xml.find("</Key>", at) - at));
  }
  return {200, {}, "<DeleteResult></DeleteResult>"};
}

HttpResponse FakeS3::Store(const HttpRequest& request, Object object) {
  if (CreateOnly(request) && objects_.count(request.path) > 0) return Error(412, "PreconditionFailed");
  objects_[request.path] = std::move(object);
  return {200, {{"etag", "\"x\""}}, ""};
}

HttpResponse FakeS3::Complete(const HttpRequest& request, const std::string& id) {
  const Upload upload = uploads_[id];
  Object object{"", upload.metadata};
  for (const auto& [number, bytes] : upload.parts) object.bytes += bytes;
  HttpResponse response = Store(request, std::move(object));
  if (response.status == 200) uploads_.erase(id);
  if (response.status == 200) response.body = "<CompleteMultipartUploadResult/>";
  return response;
}

HttpResponse FakeS3::Get(const HttpRequest& request, const Object& object) {
  HttpResponse response{200, object.metadata, object.bytes};
  response.headers.emplace_back("content-length", absl::StrCat(object.bytes.size()));
  if (request.method == "HEAD") {
    response.body.clear();
    return response;
  }
  long long from = 0, to = 0;
  if (std::sscanf(Find(request.headers, "range").c_str(), "bytes=%lld-%lld", &from, &to) != 2) return response;
  if (from >= static_cast<long long>(object.bytes.size())) return Error(416, "InvalidRange");
  response.status = 206;
  response.body = object.bytes.substr(static_cast<size_t>(from), static_cast<size_t>(to - from + 1));
  return response;
}

// Ordered by key, then by id. A page ends before the first upload that no longer fits.
HttpResponse FakeS3::ListUploads(const HttpRequest& request) {
  if (!tells_uploads_) return Error(501, "NotImplemented");
  const std::string bucket = request.path, prefix = bucket + Find(request.query, "prefix");
  using Entry = std::pair<std::string, std::string>;
  std::vector<Entry> entries;
  for (const auto& [id, upload] : uploads_) entries.emplace_back(upload.path, id);
  std::sort(entries.begin(), entries.end());
  const Entry after = {bucket + Find(request.query, "key-marker"), Find(request.query, "upload-id-marker")};
  std::string xml, next;
  size_t listed = 0;
  Entry last;
  for (const Entry& entry : entries) {
    if (!absl::StartsWith(entry.first, prefix) || entry <= after) continue;
    if (listed++ == page_size_) {
      next = absl::StrCat("<NextKeyMarker>", last.first.substr(bucket.size()), "</NextKeyMarker><NextUploadIdMarker>",
                          last.second, "</NextUploadIdMarker>");
      break;
    }
    absl::StrAppend(&xml, "<Upload><Key>", entry.first.substr(bucket.size()), "</Key><UploadId>", entry.second,
                    "</UploadId></Upload>");
    last = entry;
  }
  return {200,
          {},
          absl::StrCat("<ListMultipartUploadsResult><IsTruncated>", next.empty() ? "false" : "true", "</IsTruncated>",
                       next, xml, "</ListMultipartUploadsResult>")};
}

HttpResponse FakeS3::List(const HttpRequest& request) {
  const std::string bucket = request.path, prefix = bucket + Find(request.query, "prefix");
  std::string xml, after = Find(request.query, "continuation-token");
  size_t listed = 0;
  for (const auto& [path, object] : objects_) {
    if (!absl::StartsWith(path, prefix) || (!after.empty() && path <= after)) continue;
    if (listed++ == page_size_) {
      return {200,
              {},
              absl::StrCat("<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>", after,
                           "</NextContinuationToken>", xml, "</ListBucketResult>")};
    }
    absl::StrAppend(&xml, "<Contents><Key>", path.substr(bucket.size()), "</Key></Contents>");
    after = path;
  }
  return {200, {}, absl::StrCat("<ListBucketResult><IsTruncated>false</IsTruncated>", xml, "</ListBucketResult>")};
}

}  // namespace composer
