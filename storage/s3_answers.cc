// SPDX-License-Identifier: Apache-2.0
#include "storage/s3_answers.h"

#include <algorithm>
#include <pugixml.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace composer {
namespace {

constexpr absl::string_view kRetryableCodes[] = {
    "RequestTimeout", "SlowDown",  "InternalError",        "ServiceUnavailable",
    "Throttling",     "BadDigest", "RequestTimeTooSkewed", "ConditionalRequestConflict"};

absl::StatusOr<pugi::xml_node> Root(pugi::xml_document& document, absl::string_view xml, const char* name) {
  const pugi::xml_parse_result parsed = document.load_buffer(xml.data(), xml.size(), pugi::parse_default);
  const pugi::xml_node root = document.child(name);
  if (parsed && root) return root;
  return absl::InternalError(absl::StrCat("the answer is no ", name, ": ", absl::CHexEscape(xml.substr(0, 200))));
}

}  // namespace

absl::StatusOr<S3Page> ParseS3List(absl::string_view xml) {
  pugi::xml_document document;
  const absl::StatusOr<pugi::xml_node> root = Root(document, xml, "ListBucketResult");
  if (!root.ok()) return root.status();
  S3Page page;
  for (const pugi::xml_node& entry : root->children("Contents")) {
    const char* key = entry.child_value("Key");
    if (*key == '\0') return absl::InternalError("a listed object has no Key");
    page.keys.emplace_back(key);
  }
  if (root->child("IsTruncated").text().as_bool()) {
    page.next = root->child_value("NextContinuationToken");
    if (page.next.empty()) return absl::InternalError("a list is cut off without a NextContinuationToken");
  }
  return page;
}

absl::StatusOr<std::string> ParseS3UploadId(absl::string_view xml) {
  pugi::xml_document document;
  const absl::StatusOr<pugi::xml_node> root = Root(document, xml, "InitiateMultipartUploadResult");
  if (!root.ok()) return root.status();
  std::string id = root->child_value("UploadId");
  if (id.empty()) return absl::InternalError("a multipart upload was begun without an UploadId");
  return id;
}

absl::StatusOr<S3UploadsPage> ParseS3Uploads(absl::string_view xml) {
  pugi::xml_document document;
  const absl::StatusOr<pugi::xml_node> root = Root(document, xml, "ListMultipartUploadsResult");
  if (!root.ok()) return root.status();
  S3UploadsPage page;
  for (const pugi::xml_node& entry : root->children("Upload")) {
    S3Upload upload{entry.child_value("Key"), entry.child_value("UploadId")};
    if (upload.key.empty() || upload.id.empty())
      return absl::InternalError("a listed upload lacks its Key or UploadId");
    page.uploads.push_back(std::move(upload));
  }
  if (root->child("IsTruncated").text().as_bool()) {
    page.next_key = root->child_value("NextKeyMarker");
    page.next_id = root->child_value("NextUploadIdMarker");
    if (page.next_key.empty()) return absl::InternalError("a list of uploads is cut off without a NextKeyMarker");
  }
  return page;
}

absl::StatusOr<std::string> ParseS3DeleteErrors(absl::string_view xml) {
  pugi::xml_document document;
  const absl::StatusOr<pugi::xml_node> root = Root(document, xml, "DeleteResult");
  if (!root.ok()) return root.status();
  for (const pugi::xml_node& error : root->children("Error")) {
    const absl::string_view code = error.child_value("Code");
    if (code == "NoSuchKey") continue;
    return absl::StrCat(error.child_value("Key"), ": ", code, ": ", error.child_value("Message"));
  }
  return "";
}

S3Error ParseS3Error(absl::string_view body) {
  pugi::xml_document document;
  document.load_buffer(body.data(), body.size());
  const pugi::xml_node error = document.child("Error");
  return {error.child_value("Code"), error.child_value("Message")};
}

bool IsRetryable(int status, absl::string_view code) {
  if (status == 408 || status == 429 || status == 500 || status == 502 || status == 503 || status == 504) return true;
  return std::find(std::begin(kRetryableCodes), std::end(kRetryableCodes), code) != std::end(kRetryableCodes);
}

absl::Status StatusOfAnswer(const HttpResponse& response, absl::string_view what) {
  const S3Error error = ParseS3Error(response.body);
  const std::string text = absl::StrCat(what, ": the server says ", response.status, error.code.empty() ? "" : " ",
                                        error.code, error.message.empty() ? "" : ": ", error.message);
  switch (response.status) {
    case 404:
      return absl::NotFoundError(text);
    case 401:
    case 403:
      if (IsRetryable(response.status, error.code)) return absl::UnavailableError(text);
      return absl::PermissionDeniedError(text);
    case 412:
      return absl::AlreadyExistsError(text);
    case 416:
      return absl::OutOfRangeError(text);
    default:
      break;
  }
  if (IsRetryable(response.status, error.code)) return absl::UnavailableError(text);
  return response.status == 400 ? absl::InvalidArgumentError(text) : absl::InternalError(text);
}

}  // namespace composer
