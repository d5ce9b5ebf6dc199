// An MLflow server behind the Http seam, with its limits and its rule for repeated metrics, and with scripted faults.
// tests/integration/trackers_test.py has the real one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "base/format/json.h"
#include "net/http.h"

namespace composer {

class FakeMlflow final : public Http {
 public:
  enum class Fault { kNone, kAway, kLostAnswer, kBusy };
  using Json = nlohmann::json;
  // key, step, timestamp, value as text: what makes a metric the same.
  using Metric = std::tuple<std::string, int64_t, int64_t, std::string>;
  struct Run {
    std::string name, status = "RUNNING";
    bool deleted = false;
    std::set<Metric> metrics;
    std::map<std::string, std::string> params, tags, artifacts;
  };

  std::function<Fault(int number, const HttpRequest& request)> script = [](int, const HttpRequest&) {
    return Fault::kNone;
  };

  std::string artifact_root = "mlflow-artifacts:/";

  absl::StatusOr<HttpResponse> Send(const HttpRequest& request) override {
    const absl::MutexLock lock(&mutex_);
    const Fault fault = script(requests_++, request);
    last_headers_ = request.headers;
    if (fault == Fault::kAway) return absl::UnavailableError("connection refused");
    if (fault == Fault::kBusy) return HttpResponse{.status = 503, .headers = {}, .body = "busy"};
    const HttpResponse response = Answer(request);
    if (fault == Fault::kLostAnswer) return absl::UnavailableError("connection reset");
    return response;
  }
  std::vector<Run> runs() const {
    const absl::MutexLock lock(&mutex_);
    return runs_;
  }
  int requests() const {
    const absl::MutexLock lock(&mutex_);
    return requests_;
  }
  Json versions() const {
    const absl::MutexLock lock(&mutex_);
    return versions_;
  }
  HttpPairs last_headers() const {
    const absl::MutexLock lock(&mutex_);
    return last_headers_;
  }

 private:
  static HttpResponse Error(int status, const std::string& code) {
    return {.status = status, .headers = {}, .body = Json{{"error_code", code}, {"message", code}}.dump()};
  }
  static std::string Text(const Json& json, const char* key) { return json.at(key).get<std::string>(); }
  static HttpResponse Ok(const Json& json) { return {.status = 200, .headers = {}, .body = json.dump()}; }

  HttpResponse Answer(const HttpRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (absl::StartsWith(request.path, "/api/2.0/mlflow-artifacts/artifacts/7/")) {
      const std::string place = request.path.substr(std::string("/api/2.0/mlflow-artifacts/artifacts/7/").size());
      const size_t slash = place.find('/');  // RUN/artifacts/PATH
      runs_.at(static_cast<size_t>(std::stoi(place))).artifacts[place.substr(slash + 11)] =
          absl::StrJoin(request.body, "");
      return {.status = 200, .headers = {}, .body = ""};  // as mlflow 3.17.2
    }
    const Json body = ParseJson(absl::StrJoin(request.body, ""));
    if (!absl::StartsWith(request.path, "/api/2.0/mlflow/")) return Error(404, "ENDPOINT_NOT_FOUND");
    const std::string name = request.path.substr(16);
    if (name == "experiments/get-by-name") {
      if (experiments_.count(request.query[0].second) == 0) return Error(404, "RESOURCE_DOES_NOT_EXIST");
      return Ok({{"experiment", {{"experiment_id", "7"}}}});
    }
    if (name == "experiments/create") {
      if (!experiments_.insert(body["name"].get<std::string>()).second) return Error(400, "RESOURCE_ALREADY_EXISTS");
      return Ok({{"experiment_id", "7"}});
    }
    if (name == "runs/create") {
      Run run{.name = body["run_name"].get<std::string>()};
      for (const Json& tag : body["tags"]) run.tags[Text(tag, "key")] = Text(tag, "value");
      runs_.push_back(run);
      const std::string id = absl::StrCat(runs_.size() - 1);
      return Ok(
          {{"run",
            {{"info", {{"run_id", id}, {"artifact_uri", absl::StrCat(artifact_root, "7/", id, "/artifacts")}}}}}});
    }
    if (name == "registered-models/create")
      return models_.insert(Text(body, "name")).second ? Ok(Json::object()) : Error(400, "RESOURCE_ALREADY_EXISTS");
    if (name == "model-versions/search") return Ok({{"model_versions", versions_}});
    if (name == "model-versions/create") {
      if (models_.count(Text(body, "name")) == 0) return Error(404, "RESOURCE_DOES_NOT_EXIST");
      versions_.push_back(body);
      return Ok(Json::object());
    }
    Run& run = runs_.at(static_cast<size_t>(std::stoi(body["run_id"].get<std::string>())));
    if (name == "runs/delete") {
      run.deleted = true;
    } else if (name == "runs/update") {
      run.status = Text(body, "status");
    } else if (name == "runs/set-tag") {
      run.tags[Text(body, "key")] = Text(body, "value");
    } else if (name == "runs/log-batch") {
      return LogBatch(body, run);
    } else {
      return Error(404, "ENDPOINT_NOT_FOUND");
    }
    return Ok(Json::object());
  }

  static HttpResponse LogBatch(const Json& body, Run& run) {
    const Json metrics = body.value("metrics", Json::array()), params = body.value("params", Json::array());
    if (metrics.size() > 1000 || params.size() > 100) return Error(400, "INVALID_PARAMETER_VALUE");
    for (const Json& param : params) {
      const auto [known, is_new] = run.params.emplace(Text(param, "key"), Text(param, "value"));
      if (!is_new && known->second != Text(param, "value")) return Error(400, "INVALID_PARAMETER_VALUE");
    }
    for (const Json& m : metrics)
      run.metrics.emplace(Text(m, "key"), m["step"].get<int64_t>(), m["timestamp"].get<int64_t>(), m["value"].dump());
    return Ok(Json::object());
  }

  mutable absl::Mutex mutex_;
  int requests_ ABSL_GUARDED_BY(mutex_) = 0;
  HttpPairs last_headers_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> experiments_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> models_ ABSL_GUARDED_BY(mutex_);
  Json versions_ ABSL_GUARDED_BY(mutex_) = Json::array();
  std::vector<Run> runs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace composer
