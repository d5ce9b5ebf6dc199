// SPDX-License-Identifier: Apache-2.0
#include "storage/volume_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "storage/cloud_answers.h"
#include "storage/object_requests.h"
#include "storage/s3_answers.h"

namespace composer {
namespace {

constexpr int kMostFolders = 100'000;  // of one list

// The same statuses as S3's, with the message of Databricks' JSON.
absl::Status StatusOf(const HttpResponse& response, const std::string& where) {
  const std::string why = VolumeError(response.body);
  const absl::Status status = response.status == 409 ? absl::AlreadyExistsError(where + ": the server says 409")
                                                     : StatusOfAnswer(response, where);
  return absl::Status(status.code(), absl::StrCat(status.message(), why.empty() ? "" : " ", why));
}

}  // namespace

std::string VolumeStore::Location(const std::string& key) const {
  return absl::StrCat("dbfs:", options_.folder, "/", key);
}

absl::StatusOr<RepeatedAnswer> VolumeStore::Ask(const char* method, const char* what, const std::string& key,
                                                HttpRequest request) {
  request.method = method;
  request.origin = options_.host;
  request.path = absl::StrCat("/api/2.0/fs/", what, options_.folder, key.empty() ? "" : "/", key);
  request.headers.emplace_back("authorization", "Bearer " + options_.token);
  const auto judge = [&](const HttpResponse& response) {
    return IsRetryable(response.status, "") ? StatusOf(response, Location(key)) : absl::OkStatus();
  };
  const auto nothing = [](HttpRequest&) { return absl::OkStatus(); };
  absl::StatusOr<RepeatedAnswer> answer = http_.Send(std::move(request), nothing, judge);
  if (!answer.ok()) return Annotate(answer.status(), Location(key));
  if (answer->response.status >= 300) {
    const absl::Status status = StatusOf(answer->response, Location(key));
    if (!(absl::IsAlreadyExists(status) && answer->was_repeated)) return status;
  }
  return answer;
}

absl::Status VolumeStore::Write(const std::string& key, Pieces pieces, bool replace) {
  RETURN_IF_ERROR(CheckKey(key));
  HttpRequest request;
  request.query = {{"overwrite", replace ? "true" : "false"}};
  request.headers = {{"content-type", "application/octet-stream"}};
  request.body = pieces;
  absl::StatusOr<RepeatedAnswer> answer = Ask("PUT", "files", key, request);
  if (absl::IsNotFound(answer.status())) {
    RETURN_IF_ERROR(Ask("PUT", "directories", DirName(key) == "." ? "" : DirName(key), {}).status());
    answer = Ask("PUT", "files", key, request);
  }
  RETURN_IF_ERROR(answer.status());
  if (answer->response.status < 300) return absl::OkStatus();
  const absl::StatusOr<std::string> found = GetObject(*this, key, BodySize(request));
  return found.ok() && *found == JoinPieces(pieces) ? absl::OkStatus() : StatusOf(answer->response, Location(key));
}

absl::StatusOr<int64_t> VolumeStore::Size(const std::string& key) {
  RETURN_IF_ERROR(CheckKey(key));
  ASSIGN_OR_RETURN(const RepeatedAnswer answer, Ask("HEAD", "files", key, {}));
  return SizeOfAnswer(answer.response, Location(key));
}

absl::Status VolumeStore::Read(const std::string& key, int64_t offset, absl::Span<char> into) {
  return ReadRange(*this, key, offset, into,
                   [&](HttpRequest request) { return Ask("GET", "files", key, std::move(request)); });
}

absl::Status VolumeStore::ListOne(const std::string& folder, std::vector<std::string>& keys,
                                  std::vector<std::string>& deeper) {
  for (std::string token;;) {
    HttpRequest request;
    if (!token.empty()) request.query = {{"page_token", token}};
    const absl::StatusOr<RepeatedAnswer> answer = Ask("GET", "directories", folder, request);
    if (absl::IsNotFound(answer.status())) return absl::OkStatus();
    RETURN_IF_ERROR(answer.status());
    ASSIGN_OR_RETURN(const VolumePage page, ParseVolumeList(answer->response.body));
    const auto add = [&](const std::vector<std::string>& paths, std::vector<std::string>& to) {
      for (absl::string_view path : paths) {
        if (absl::ConsumePrefix(&path, options_.folder + "/") && CheckKey(absl::StripSuffix(path, "/")).ok())
          to.emplace_back(absl::StripSuffix(path, "/"));  // others are not ours
      }
    };
    add(page.files, keys);
    add(page.folders, deeper);
    if (page.next.empty() || page.next == token) return absl::OkStatus();
    token = page.next;
  }
}

absl::StatusOr<std::vector<std::string>> VolumeStore::List(const std::string& folder) {
  if (!folder.empty()) RETURN_IF_ERROR(CheckKey(folder));
  std::vector<std::string> keys, folders = {folder};
  for (size_t i = 0; i < folders.size(); ++i) {
    if (i == kMostFolders) return absl::ResourceExhaustedError(Location(folder) + ": too many folders");
    RETURN_IF_ERROR(ListOne(std::string(folders[i]), keys, folders));
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

absl::Status VolumeStore::Delete(const std::string& key) {
  RETURN_IF_ERROR(CheckKey(key));
  const absl::Status status = Ask("DELETE", "files", key, {}).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status VolumeStore::DeleteTree(const std::string& folder) {
  RETURN_IF_ERROR(CheckKey(folder));
  std::vector<std::string> folders = {folder}, keys;
  for (size_t i = 0; i < folders.size() && i < kMostFolders; ++i)
    RETURN_IF_ERROR(ListOne(std::string(folders[i]), keys, folders));
  for (const std::string& key : keys) RETURN_IF_ERROR(Delete(key));
  for (size_t i = folders.size(); i-- > 0;) {  // a folder must be empty
    const absl::Status status = Ask("DELETE", "directories", folders[i], {}).status();
    if (!status.ok() && !absl::IsNotFound(status)) return status;
  }
  return absl::OkStatus();
}

}  // namespace composer
