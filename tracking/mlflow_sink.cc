// SPDX-License-Identifier: Apache-2.0
#include "tracking/mlflow_sink.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/format/json.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/status_macros.h"

namespace composer {
namespace {

using Json = nlohmann::json;

constexpr size_t kMetricsPerCall = 1000, kParametersPerCall = 100, kMaxTags = 80;
constexpr size_t kMaxName = 250, kMaxParameter = 6000, kMaxTag = 5000;
constexpr int64_t kMaxArtifact = int64_t{1} << 30;
constexpr size_t kMaxTables = 40;  // in a tag of 5,000 characters
constexpr char kArtifactsNote[] = "artifacts", kTablesNote[] = "tables";
constexpr char kExperimentNote[] = "experiment_id", kRunNote[] = "run_id", kParametersSent[] = "parameters_sent";
constexpr char kCheckpointNote[] = "checkpoint", kRegisteredNote[] = "registered";  // places among the artifacts

// Cuts a text at a character.
std::string Cut(std::string text, size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (text[bytes] & 0xC0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

// JSON has no NaN; MLflow takes protocol buffers' spelling.
Json MetricNumber(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

Json Tag(absl::string_view key, const std::string& value) {
  return {{"key", MlflowName(key)}, {"value", Cut(value, kMaxTag)}};
}

std::string ErrorText(const HttpResponse& response) {
  const Json body = ParseJson(response.body);
  const bool has_text = body.is_object() && body.contains("message") && body["message"].is_string();
  const std::string text = has_text ? body["message"].get<std::string>() : response.body;
  return absl::StrCat("HTTP ", response.status, ": ", Printable(Cut(text, 500)));
}

std::string TextOf(const Json& json, std::initializer_list<const char*> path) {
  const Json* at = &json;
  for (const char* key : path) {
    if (!at->is_object() || !at->contains(key)) return "";
    at = &(*at)[key];
  }
  return at->is_string() ? at->get<std::string>() : "";
}

}  // namespace

std::string MlflowName(absl::string_view name) {
  std::string safe(name.substr(0, kMaxName));
  for (char& c : safe) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && !absl::StrContains("_-./: ", c)) c = '_';
  }
  return safe;
}

absl::StatusOr<MlflowSink::Options> MlflowSink::ReadOptions(const std::map<std::string, std::string>& settings,
                                                            const Environment& environment) {
  const std::string address = SettingOr(settings, "tracking_uri", environment.GetOr("MLFLOW_TRACKING_URI", ""));
  absl::string_view rest = address;
  const absl::string_view scheme = absl::StartsWith(rest, "https://") ? "https://" : "http://";
  if (!absl::ConsumePrefix(&rest, scheme) || rest.empty() || rest[0] == '/' || absl::StrContains(rest, "@"))
    return absl::InvalidArgumentError(absl::StrCat(
        "tracking_uri: `", address,
        "` must be http://HOST[:PORT] or https://… of an MLflow server, also as "
        "MLFLOW_TRACKING_URI; user and password go to MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"));
  Options options;
  const size_t slash = rest.find('/');
  options.origin = absl::StrCat(scheme, rest.substr(0, slash));
  if (slash != absl::string_view::npos) options.path = std::string(absl::StripSuffix(rest.substr(slash), "/"));
  const auto token = environment.Get("MLFLOW_TRACKING_TOKEN"), user = environment.Get("MLFLOW_TRACKING_USERNAME");
  if (user.has_value()) {
    options.authorization = absl::StrCat(
        "Basic ",
        absl::Base64Escape(absl::StrCat(*user, ":", environment.Get("MLFLOW_TRACKING_PASSWORD").value_or(""))));
  } else if (token.has_value()) {
    options.authorization = absl::StrCat("Bearer ", *token);
  }
  return options;
}

absl::StatusOr<Json> MlflowSink::Call(const std::string& method, const std::string& name, const Json& body,
                                      const HttpPairs& query) {
  const std::string text = body.is_null() ? "" : body.dump(-1, ' ', false, Json::error_handler_t::replace);
  const absl::string_view parts[] = {text};
  HttpRequest request;
  request.method = method;
  request.path = absl::StrCat(options_.path, "/api/2.0/mlflow/", name);
  request.query = query;
  request.headers = {{"content-type", "application/json"}};
  if (!text.empty()) request.body = parts;
  return Send(std::move(request), name);
}

absl::StatusOr<Json> MlflowSink::Send(HttpRequest request, const std::string& name) {
  request.origin = options_.origin;
  if (!options_.authorization.empty()) request.headers.emplace_back("authorization", options_.authorization);
  request.timeout = absl::Minutes(2);
  request.given_up = options_.given_up.get();
  const auto response = http_->Send(request);
  const std::string place = absl::StrCat("MLflow at ", options_.origin, ", ", name, ": ");
  if (!response.ok()) return absl::Status(response.status().code(), absl::StrCat(place, response.status().message()));
  if (response->status == 200) {
    if (response->body.empty()) return Json::object();  // to a file
    Json answer = ParseJson(response->body);
    if (answer.is_object()) return answer;
    return absl::UnavailableError(absl::StrCat(place, "the answer is not JSON"));
  }
  const std::string why = absl::StrCat(place, ErrorText(*response));
  if (absl::StrContains(response->body, "RESOURCE_ALREADY_EXISTS")) return absl::AlreadyExistsError(why);
  if (response->status == 404) return absl::NotFoundError(why);
  if (response->status == 401 || response->status == 403) return absl::PermissionDeniedError(why);
  if (response->status == 400) return absl::InvalidArgumentError(why);
  return absl::UnavailableError(why);
}

absl::StatusOr<std::string> MlflowSink::ExperimentId(const std::string& name) {
  absl::Status last;
  for (int round = 0; round < 2; ++round) {
    const auto found = Call("GET", "experiments/get-by-name", nullptr, {{"experiment_name", name}});
    if (found.ok()) return TextOf(*found, {"experiment", "experiment_id"});
    if (!absl::IsNotFound(found.status())) return found.status();
    const auto created = Call("POST", "experiments/create", {{"name", name}});
    if (created.ok()) return TextOf(*created, {"experiment_id"});
    last = created.status();
    if (!absl::IsAlreadyExists(last)) break;  // else another run has created it meanwhile
  }
  return last;
}

absl::Status MlflowSink::CreateRun(const TrackedRun& run, TrackerMemory& memory) {
  const std::string name = SettingOr(memory.settings, "run_name", run.name);
  ASSIGN_OR_RETURN(const std::string experiment,
                   ExperimentId(SettingOr(memory.settings, "experiment_name", "composer")));
  Json tags = Json::array({Tag("mlflow.source.type", "JOB"), Tag("composer.run_folder", run.folder),
                           Tag("composer.version", COMPOSER_VERSION)});
  for (const auto& [key, value] : memory.parameters) {
    if (key == "git_commit") tags.push_back(Tag("mlflow.source.git.commit", value));
  }
  for (const auto& [key, value] : memory.settings) {
    absl::string_view tag = key;
    if (absl::ConsumePrefix(&tag, "tags.") && tags.size() < kMaxTags) tags.push_back(Tag(tag, value));
  }
  ASSIGN_OR_RETURN(const Json created, Call("POST", "runs/create",
                                            {{"experiment_id", experiment},
                                             {"run_name", name},
                                             {"start_time", static_cast<int64_t>(run.started * 1000)},
                                             {"tags", tags}}));
  const std::string id = TextOf(created, {"run", "info", "run_id"});
  if (id.empty()) return absl::UnavailableError("MLflow: runs/create: the answer has no run_id");
  memory.notes[kExperimentNote] = experiment;
  memory.notes[kRunNote] = id;
  memory.notes[kParametersSent] = "0";
  for (const char* note : {kTablesNote, kCheckpointNote, kRegisteredNote}) memory.notes.erase(note);
  // "mlflow-artifacts:/1/ID/artifacts", or with the server in front: "mlflow-artifacts://host:5000/1/ID/artifacts".
  const std::string place = TextOf(created, {"run", "info", "artifact_uri"});
  absl::string_view rest = place;
  const bool proxied = absl::ConsumePrefix(&rest, "mlflow-artifacts:");
  if (absl::ConsumePrefix(&rest, "//")) rest.remove_prefix(std::min(rest.size(), rest.find('/')));
  memory.notes[kArtifactsNote] = proxied ? std::string(absl::StripPrefix(rest, "/")) : "";
  return absl::OkStatus();
}

absl::Status MlflowSink::AddTable(const std::string& path, TrackerMemory& memory) {
  Json tables = ParseJson(memory.notes[kTablesNote]);
  if (!tables.is_array()) tables = Json::array();
  const Json table = {{"path", path}, {"type", "table"}};
  if (std::find(tables.begin(), tables.end(), table) != tables.end() || tables.size() >= kMaxTables)
    return absl::OkStatus();
  tables.push_back(table);
  const Json tag = {{"run_id", memory.notes[kRunNote]}, {"key", "mlflow.loggedArtifacts"}, {"value", tables.dump()}};
  RETURN_IF_ERROR(Call("POST", "runs/set-tag", tag).status());
  memory.notes[kTablesNote] = tables.dump();
  return absl::OkStatus();
}

absl::Status MlflowSink::SendFile(const TrackedRun& run, const TrackedFile& file, TrackerMemory& memory) {
  const std::string root = memory.notes[kArtifactsNote];
  if (root.empty()) {
    if (std::exchange(memory.notes["artifacts_left_out"], "true").empty())
      LOG(WARNING)
          << "MLflow keeps this run's artifacts in a place of its own: pictures, tables and files are not sent";
    return absl::OkStatus();
  }
  const auto content = ReadFile(JoinPath(run.folder, file.path), kMaxArtifact);
  if (!content.ok()) {
    LOG(WARNING) << "not sent to MLflow: " << content.status();
    return absl::OkStatus();
  }
  const absl::string_view parts[] = {*content};
  HttpRequest request;
  request.method = "PUT";
  request.path = absl::StrCat(options_.path, "/api/2.0/mlflow-artifacts/artifacts/", root, "/", file.path);
  request.headers = {{"content-type", "application/octet-stream"}};
  request.body = parts;
  RETURN_IF_ERROR(Send(std::move(request), "artifacts").status());
  if (file.kind == TrackedFile::Kind::kCheckpoint) {  // one of its files: FOLDER/NAME/…
    const size_t at = file.path.find(absl::StrCat("/", file.name, "/"));
    if (at != std::string::npos)
      memory.notes[kCheckpointNote] =
          absl::StrCat("mlflow-artifacts:/", root, "/", file.path.substr(0, at), "/", file.name);
  }
  return file.kind == TrackedFile::Kind::kTable ? AddTable(file.path, memory) : absl::OkStatus();
}

absl::Status MlflowSink::Begin(const TrackedRun& run, TrackerMemory& memory) {
  if (memory.notes.contains(kRunNote)) return Update(memory, "RUNNING");
  return CreateRun(run, memory);
}

absl::Status MlflowSink::StartOver(const TrackedRun& run, TrackerMemory& memory) {
  const std::string before = memory.notes[kRunNote];
  RETURN_IF_ERROR(CreateRun(run, memory));
  if (before.empty()) return absl::OkStatus();
  const absl::Status deleted = Call("POST", "runs/delete", {{"run_id", before}}).status();
  return absl::IsNotFound(deleted) || absl::IsInvalidArgument(deleted) ? absl::OkStatus() : deleted;
}

absl::Status MlflowSink::SendParameters(TrackerMemory& memory) {
  int64_t sent = 0;
  if (!absl::SimpleAtoi(memory.notes[kParametersSent], &sent) || sent < 0) sent = 0;
  while (static_cast<size_t>(sent) < memory.parameters.size()) {
    const size_t end = std::min(memory.parameters.size(), static_cast<size_t>(sent) + kParametersPerCall);
    Json params = Json::array();
    for (size_t i = static_cast<size_t>(sent); i < end; ++i) {
      const auto& [key, value] = memory.parameters[i];
      params.push_back({{"key", MlflowName(key)}, {"value", Cut(value, kMaxParameter)}});
    }
    const absl::Status status =
        Call("POST", "runs/log-batch", {{"run_id", memory.notes[kRunNote]}, {"params", params}}).status();
    // A parameter that MLflow has with another value keeps the first one; metrics must not wait for that.
    if (!status.ok() && !absl::IsInvalidArgument(status)) return status;
    sent = static_cast<int64_t>(end);
    memory.notes[kParametersSent] = absl::StrCat(sent);
  }
  return absl::OkStatus();
}

absl::Status MlflowSink::Send(absl::Span<const TrackedRecord> records, TrackerMemory& memory) {
  RETURN_IF_ERROR(SendParameters(memory));
  Json metrics = Json::array();
  const auto flush = [&]() -> absl::Status {
    if (metrics.empty()) return absl::OkStatus();
    return Call("POST", "runs/log-batch",
                {{"run_id", memory.notes[kRunNote]}, {"metrics", std::exchange(metrics, Json::array())}})
        .status();
  };
  for (const TrackedRecord& record : records) {
    for (const auto& [name, value] : record.values) {
      metrics.push_back({{"key", MlflowName(name)},
                         {"value", MetricNumber(value)},
                         {"timestamp", static_cast<int64_t>(std::llround(record.row.wall * 1000))},
                         {"step", record.row.batch}});
      if (metrics.size() == kMetricsPerCall) RETURN_IF_ERROR(flush());
    }
  }
  return flush();
}

absl::Status MlflowSink::Update(const TrackerMemory& memory, const std::string& status) {
  Json body = {{"run_id", memory.notes.at(kRunNote)}, {"status", status}};
  if (status != "RUNNING") body["end_time"] = absl::ToUnixMillis(absl::Now());
  return Call("POST", "runs/update", body).status();
}

absl::Status MlflowSink::Register(TrackerMemory& memory) {
  const std::string model = SettingOr(memory.settings, "registered_model", "");
  const std::string source = memory.notes[kCheckpointNote], run = memory.notes[kRunNote];
  if (model.empty() || source.empty() || memory.notes[kRegisteredNote] == source) return absl::OkStatus();
  const absl::Status made = Call("POST", "registered-models/create", {{"name", model}}).status();
  if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  // The answer to an earlier try may have been lost.
  ASSIGN_OR_RETURN(const Json found,
                   Call("GET", "model-versions/search", nullptr, {{"filter", absl::StrCat("run_id='", run, "'")}}));
  const Json versions = found.value("model_versions", Json::array());
  const bool known = std::any_of(versions.begin(), versions.end(), [&](const Json& version) {
    return TextOf(version, {"name"}) == model && TextOf(version, {"source"}) == source;
  });
  if (!known) {
    const Json version = {{"name", model}, {"source", source}, {"run_id", run}};
    RETURN_IF_ERROR(Call("POST", "model-versions/create", version).status());
  }
  memory.notes[kRegisteredNote] = source;
  return absl::OkStatus();
}

absl::Status MlflowSink::Finish(absl::string_view state, TrackerMemory& memory) {
  RETURN_IF_ERROR(SendParameters(memory));
  RETURN_IF_ERROR(Register(memory));
  return Update(memory, state == "done" ? "FINISHED" : state == "preempted" || state == "killed" ? "KILLED" : "FAILED");
}

}  // namespace composer
