// An in-memory Object Storage of Oracle's, as far as OciStore uses it. tests/integration/fake_oci.py is one for
// programs, which checks signatures, too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "tests/support/scripted_http.h"

namespace composer {

class FakeOci final : public ScriptedHttp {
 public:
  size_t page_size = 2;
  size_t uploads() const {
    const absl::MutexLock lock(&mutex_);
    return uploads_.size();
  }

 private:
  using Json = nlohmann::json;
  struct OpenUpload {
    std::string object, attempt;
    std::map<int64_t, std::string> parts;
  };
  static HttpResponse Error(int status, const char* code) {
    return {status, {}, Json{{"code", code}, {"message", "fake"}}.dump()};
  }

  HttpResponse Answer(const HttpRequest& request) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!absl::StartsWith(Value(request.headers, "authorization"), "Signature ")) return Error(401, "NotAuthenticated");
    if (request.path == "/n/") return {200, {}, "\"tenant\""};
    absl::string_view name = request.path;
    if (!absl::ConsumePrefix(&name, "/n/tenant/b/runs/")) return Error(404, "BucketNotFound");
    if (name == "o") return List(request);
    if (name == "u") return request.method == "POST" ? Begin(request) : ListUploads(request);
    if (absl::ConsumePrefix(&name, "u/")) return OfUpload(request);
    return OfObject(request, std::string(absl::StripPrefix(name, "o/")));
  }

  HttpResponse OfObject(const HttpRequest& request, const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (request.method == "PUT")
      return Make(request, name, BodyOf(request), Value(request.headers, "opc-meta-composer-attempt"));
    const auto found = objects_.find("/" + name);
    if (found == objects_.end()) return Error(404, "ObjectNotFound");
    if (request.method == "DELETE") {
      objects_.erase(found);
      return {204, {}, ""};
    }
    HttpResponse response = Part(request, found->second);
    response.headers.emplace_back("opc-meta-composer-attempt", attempts_[name]);
    return response;
  }

  HttpResponse Make(const HttpRequest& request, const std::string& name, const std::string& bytes,
                    const std::string& attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (Value(request.headers, "if-none-match") == "*" && objects_.count("/" + name) > 0)
      return Error(412, "IfNoneMatchFailed");
    objects_["/" + name] = bytes;
    attempts_[name] = attempt;
    return {200, {}, ""};
  }

  HttpResponse Begin(const HttpRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const Json asked = Json::parse(BodyOf(request));
    const std::string name = asked["object"], id = absl::StrCat("id-", ++ids_);
    if (Value(request.headers, "if-none-match") == "*" && objects_.count("/" + name) > 0)
      return Error(412, "IfNoneMatchFailed");
    uploads_[id] = {name, asked["metadata"]["opc-meta-composer-attempt"], {}};
    return {200, {}, Json{{"uploadId", id}, {"object", name}}.dump()};
  }

  HttpResponse OfUpload(const HttpRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto upload = uploads_.find(Value(request.query, "uploadId"));
    if (upload == uploads_.end()) return Error(404, "NoSuchUpload");
    OpenUpload& open = upload->second;
    if (request.method == "PUT") {
      const int64_t number = std::stoll(Value(request.query, "uploadPartNum"));
      open.parts[number] = BodyOf(request);
      return {200, {{"etag", absl::StrCat("etag-", number)}}, ""};
    }
    if (request.method == "POST") {
      std::string bytes;
      const Json commit = Json::parse(BodyOf(request));
      for (const Json& part : commit.at("partsToCommit")) {
        const int64_t number = part["partNum"];
        if (part["etag"] != absl::StrCat("etag-", number)) return Error(400, "InvalidUploadPart");
        bytes += open.parts[number];
      }
      HttpResponse made = Make(request, open.object, bytes, open.attempt);
      if (made.status != 200) return made;
    }
    uploads_.erase(upload);
    return {request.method == "POST" ? 200 : 204, {}, ""};
  }

  HttpResponse List(const HttpRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Json list = {{"objects", Json::array()}, {"prefixes", Json::array()}};
    for (const auto& [path, bytes] : objects_) {
      const std::string name = path.substr(1);
      if (!absl::StartsWith(name, Value(request.query, "prefix")) || name < Value(request.query, "start")) continue;
      if (list["objects"].size() == page_size) {
        list["nextStartWith"] = name;
        break;
      }
      list["objects"].push_back({{"name", name}});
    }
    return {200, {}, list.dump()};
  }

  HttpResponse ListUploads(const HttpRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Json list = Json::array();
    for (const auto& [id, upload] : uploads_) {
      if (id < Value(request.query, "page")) continue;
      if (list.size() == page_size) return {200, {{"opc-next-page", id}}, list.dump()};
      list.push_back({{"object", upload.object}, {"uploadId", id}, {"bucket", "runs"}});
    }
    return {200, {}, list.dump()};
  }

  std::map<std::string, OpenUpload> uploads_ ABSL_GUARDED_BY(mutex_);  // by id
  std::map<std::string, std::string> attempts_ ABSL_GUARDED_BY(mutex_);
  int ids_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace composer
