// An in-memory Azure Blob Storage, as far as AzureStore uses it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "tests/support/scripted_http.h"

namespace composer {

class FakeAzure final : public ScriptedHttp {
 public:
  size_t page_size = 2;

 private:
  static HttpResponse Error(int status, absl::string_view code) {
    return {status, {}, absl::StrCat("<?xml version=\"1.0\"?><Error><Code>", code, "</Code></Error>")};
  }

  HttpResponse Answer(const HttpRequest& request) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (Value(request.headers, "x-ms-version").empty()) return Error(400, "MissingRequiredHeader");
    if (Value(request.headers, "authorization").empty()) return Error(403, "AuthenticationFailed");
    const std::string comp = Value(request.query, "comp");
    if (comp == "list") return List(request);
    if (request.method == "PUT") return comp == "block" ? StageBlock(request) : Store(request, comp);
    const auto found = objects_.find(request.path);
    if (found == objects_.end()) return Error(404, "BlobNotFound");
    if (request.method == "DELETE") {
      objects_.erase(found);
      return {202, {}, ""};
    }
    HttpResponse response = Part(request, found->second);
    response.headers.emplace_back("x-ms-meta-composerattempt", attempts_[request.path]);
    return response;
  }

  HttpResponse StageBlock(const HttpRequest& request) {
    blocks_[request.path][Value(request.query, "blockid")] = BodyOf(request);
    return {201, {}, ""};
  }

  // A list of blocks uses them up: those that it does not name are dropped.
  HttpResponse Store(const HttpRequest& request, const std::string& comp) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::string bytes = BodyOf(request);
    if (comp == "blocklist") {
      const std::string xml = bytes;
      bytes.clear();
      for (size_t at = 0; (at = xml.find("<Latest>", at)) != std::string::npos;) {
        at += 8;
        const auto block = blocks_[request.path].find(xml.substr(at, xml.find("</Latest>", at) - at));
        if (block == blocks_[request.path].end()) return Error(400, "InvalidBlockList");
        bytes += block->second;
      }
    } else if (Value(request.headers, "x-ms-blob-type") != "BlockBlob") {
      return Error(400, "MissingRequiredHeader");
    }
    if (Value(request.headers, "if-none-match") == "*" && objects_.count(request.path) > 0)
      return Error(409, "BlobAlreadyExists");
    blocks_.erase(request.path);
    objects_[request.path] = bytes;
    attempts_[request.path] = Value(request.headers, "x-ms-meta-composerattempt");
    return {201, {}, ""};
  }

  HttpResponse List(const HttpRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const std::string folder = request.path + "/", prefix = folder + Value(request.query, "prefix");
    std::string xml, next;
    size_t listed = 0;
    for (const auto& [path, bytes] : objects_) {
      if (!absl::StartsWith(path, prefix) || path <= folder + Value(request.query, "marker")) continue;
      if (listed++ == page_size) return ListAnswer(xml, next);
      next = path.substr(folder.size());
      absl::StrAppend(&xml, "<Blob><Name>", next, "</Name></Blob>");
    }
    return ListAnswer(xml, "");
  }
  static HttpResponse ListAnswer(const std::string& blobs, const std::string& next) {
    return {200,
            {},
            absl::StrCat("<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults><Blobs>", blobs,
                         "</Blobs><NextMarker>", next, "</NextMarker></EnumerationResults>")};
  }

  std::map<std::string, std::map<std::string, std::string>> blocks_;  // by path and id
  std::map<std::string, std::string> attempts_;
};

}  // namespace composer
