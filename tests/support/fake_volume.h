// An in-memory volume behind Databricks' Files API, as far as VolumeStore uses it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "tests/support/scripted_http.h"

namespace composer {

class FakeVolume final : public ScriptedHttp {
 public:
  size_t page_size = 2;

 private:
  static HttpResponse Error(int status, const char* code) {
    return {status, {}, nlohmann::json{{"error_code", code}, {"message", "fake"}}.dump()};
  }
  static std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

  HttpResponse Answer(const HttpRequest& request) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (Value(request.headers, "authorization") != "Bearer secret") return Error(403, "PERMISSION_DENIED");
    absl::string_view path = request.path;
    if (absl::ConsumePrefix(&path, "/api/2.0/fs/directories")) return Folder(request, std::string(path));
    absl::ConsumePrefix(&path, "/api/2.0/fs/files");
    const std::string name(path);
    if (request.method == "PUT") {
      if (folders_.count(FolderOf(name)) == 0) return Error(404, "NOT_FOUND");
      if (Value(request.query, "overwrite") != "true" && objects_.count(name) > 0) return Error(409, "ALREADY_EXISTS");
      objects_[name] = BodyOf(request);
      return {204, {}, ""};
    }
    const auto found = objects_.find(name);
    if (found == objects_.end()) return Error(404, "NOT_FOUND");
    if (request.method != "DELETE") return Part(request, found->second);
    objects_.erase(found);
    return {204, {}, ""};
  }

  HttpResponse Folder(const HttpRequest& request, const std::string& folder) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (request.method == "PUT") {
      for (std::string each = folder; !each.empty(); each = FolderOf(each)) folders_.insert(each);
      return {204, {}, ""};
    }
    if (folders_.count(folder) == 0) return Error(404, "NOT_FOUND");
    nlohmann::json contents = nlohmann::json::array();
    for (const auto& [path, bytes] : objects_) {
      if (FolderOf(path) == folder) contents.push_back({{"path", path}, {"is_directory", false}});
    }
    for (const std::string& path : folders_) {
      if (FolderOf(path) == folder) contents.push_back({{"path", path}, {"is_directory", true}});
    }
    if (request.method == "DELETE") {
      if (!contents.empty()) return Error(400, "DIRECTORY_NOT_EMPTY");
      folders_.erase(folder);
      return {204, {}, ""};
    }
    const std::string token = Value(request.query, "page_token");
    const size_t begin = token.empty() ? 0 : std::stoul(token), end = std::min(begin + page_size, contents.size());
    nlohmann::json page = {{"contents", nlohmann::json::array()}};
    for (size_t i = begin; i < end; ++i) page["contents"].push_back(contents[i]);
    if (end < contents.size()) page["next_page_token"] = std::to_string(end);
    return {200, {}, page.dump()};
  }

  std::set<std::string> folders_ = {"/Volumes/main/default/runs"};
};

}  // namespace composer
