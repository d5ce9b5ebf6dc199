// SPDX-License-Identifier: Apache-2.0
#include "launcher/platform/preemption_sources.h"

#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace composer {
namespace {

// Asks a service of this machine: through no proxy, and for a second at most.
absl::StatusOr<HttpResponse> Ask(Http& http, HttpRequest request) {
  request.timeout = absl::Seconds(1);
  request.use_proxy = false;
  request.max_body_bytes = kMaxNoticeBytes;
  return http.Send(request);
}

absl::Status BadStatus(const HttpRequest& request, const HttpResponse& response) {
  return absl::UnavailableError(absl::StrCat(request.method, " ", UrlOf(request), " answers HTTP ", response.status));
}

// Returns the body of an answer with status 200.
absl::StatusOr<std::string> AskForBody(Http& http, const HttpRequest& request) {
  ASSIGN_OR_RETURN(HttpResponse response, Ask(http, request));
  if (response.status != 200) return BadStatus(request, response);
  return std::move(response.body);
}

class AwsSource final : public PreemptionSource {
 public:
  AwsSource(std::string base, bool rebalance, std::shared_ptr<Http> http)
      : base_(std::move(base)), rebalance_(rebalance), http_(std::move(http)) {}

  std::string name() const override { return absl::StrCat(rebalance_ ? "aws-rebalance" : "aws", " at ", base_); }

  NoticeOr Look(absl::Time now) override {
    if (token_.empty() || now > token_ends_ - kRenewEarly) RETURN_IF_ERROR(TakeToken(now));
    const char* path = rebalance_ ? "events/recommendations/rebalance" : "spot/instance-action";
    const HttpRequest request = {.origin = base_,
                                 .path = absl::StrCat("/latest/meta-data/", path),
                                 .headers = {{"x-aws-ec2-metadata-token", token_}}};
    ASSIGN_OR_RETURN(const HttpResponse response, Ask(*http_, request));
    if (response.status == 404) return std::nullopt;
    if (response.status == 401) token_.clear();
    if (response.status != 200) return BadStatus(request, response);
    return rebalance_ ? ParseAwsRebalance(response.body) : ParseAwsInstanceAction(response.body);
  }

 private:
  static constexpr int kTokenSeconds = 3600;
  static constexpr absl::Duration kRenewEarly = absl::Seconds(15);

  absl::Status TakeToken(absl::Time now) {
    const HttpRequest request = {.method = "PUT",
                                 .origin = base_,
                                 .path = "/latest/api/token",
                                 .headers = {{"x-aws-ec2-metadata-token-ttl-seconds", absl::StrCat(kTokenSeconds)}}};
    ASSIGN_OR_RETURN(const std::string body, AskForBody(*http_, request));
    const absl::string_view token = absl::StripAsciiWhitespace(body);
    const bool usable =
        !token.empty() && token.size() <= 1024 && std::all_of(token.begin(), token.end(), absl::ascii_isgraph);
    if (!usable) return absl::UnavailableError(absl::StrCat(UrlOf(request), " gives no token"));
    token_ = std::string(token);
    token_ends_ = now + absl::Seconds(kTokenSeconds);
    return absl::OkStatus();
  }

  const std::string base_;
  const bool rebalance_;
  const std::shared_ptr<Http> http_;
  std::string token_;
  absl::Time token_ends_;
};

class GcpSource final : public PreemptionSource {
 public:
  GcpSource(std::string base, std::shared_ptr<Http> http) : base_(std::move(base)), http_(std::move(http)) {}

  std::string name() const override { return absl::StrCat("gcp at ", base_); }

  NoticeOr Look(absl::Time now) override {
    ASSIGN_OR_RETURN(const std::string preempted, Get("preempted"));
    ASSIGN_OR_RETURN(auto notice, ParseGcpPreempted(preempted, now));
    if (notice.has_value()) return notice;
    ASSIGN_OR_RETURN(const std::string maintenance, Get("maintenance-event"));
    return ParseGcpMaintenance(maintenance, now);
  }

 private:
  absl::StatusOr<std::string> Get(const char* key) {
    return AskForBody(*http_, {.origin = base_,
                               .path = absl::StrCat("/computeMetadata/v1/instance/", key),
                               .headers = {{"metadata-flavor", "Google"}}});
  }

  const std::string base_;
  const std::shared_ptr<Http> http_;
};

class AzureSource final : public PreemptionSource {
 public:
  AzureSource(std::string base, std::shared_ptr<Http> http) : base_(std::move(base)), http_(std::move(http)) {}

  std::string name() const override { return absl::StrCat("azure at ", base_); }
  // The first request of a machine switches the service on, which takes up to two minutes.
  absl::Duration patience() const override { return absl::Seconds(150); }

  NoticeOr Look(absl::Time) override {
    if (machine_.empty()) {
      ASSIGN_OR_RETURN(const std::string name, Send({.path = "/metadata/instance/compute/name",
                                                     .query = {{"api-version", "2020-09-01"}, {"format", "text"}}}));
      machine_ = std::string(absl::StripAsciiWhitespace(name));
      if (machine_.empty()) return absl::UnavailableError("Azure does not tell this machine's name");
    }
    ASSIGN_OR_RETURN(const std::string events, Send({.path = kEvents, .query = events_version_}));
    return ParseAzureEvents(events, machine_, &event_ids_);
  }

  absl::Status Acknowledge() override {
    if (event_ids_.empty()) return absl::OkStatus();
    const std::string body = AzureAcknowledgement(event_ids_);
    const absl::string_view pieces[] = {body};
    return Send({.method = "POST",
                 .path = kEvents,
                 .query = events_version_,
                 .headers = {{"content-type", "application/json"}},
                 .body = pieces})
        .status();
  }

 private:
  static constexpr char kEvents[] = "/metadata/scheduledevents";
  const HttpPairs events_version_ = {{"api-version", "2020-07-01"}};

  absl::StatusOr<std::string> Send(HttpRequest request) {
    request.origin = base_;
    request.headers.emplace_back("metadata", "true");
    return AskForBody(*http_, request);
  }

  const std::string base_;
  const std::shared_ptr<Http> http_;
  std::string machine_;
  std::vector<std::string> event_ids_;
};

// Gives notice when the file appears or changes; its first line says why. A file that exists at the start, left over
// from an earlier notice, does not count.
class FileSource final : public PreemptionSource {
 public:
  explicit FileSource(std::string path) : path_(std::move(path)), before_(Version()) {}

  std::string name() const override { return absl::StrCat("file ", path_); }
  absl::Duration interval() const override { return absl::Milliseconds(500); }

  NoticeOr Look(absl::Time) override {
    const std::string version = Version();
    if (version == before_) return std::nullopt;
    before_ = version;
    if (version.empty()) return std::nullopt;  // removed
    const std::string text = ReadFile(path_, 4096).value_or("");
    std::string line = text.substr(0, std::min(text.find('\n'), size_t{200}));
    for (char& c : line) {
      if (absl::ascii_iscntrl(c)) c = '?';
    }
    return Notice{.what = line.empty() ? "this machine is to be freed" : line, .origin = name()};
  }

 private:
  std::string Version() const {
    struct stat info;
    if (stat(path_.c_str(), &info) != 0) return "";
    return absl::StrCat(info.st_ino, " ", info.st_size, " ", info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec);
  }

  const std::string path_;
  std::string before_;
};

}  // namespace

std::unique_ptr<PreemptionSource> MakePreemptionSource(const PreemptionSpec& spec, std::shared_ptr<Http> http) {
  switch (spec.kind) {
    case PreemptionKind::kAws:
    case PreemptionKind::kAwsRebalance:
      return std::make_unique<AwsSource>(spec.where, spec.kind == PreemptionKind::kAwsRebalance, std::move(http));
    case PreemptionKind::kGcp:
      return std::make_unique<GcpSource>(spec.where, std::move(http));
    case PreemptionKind::kAzure:
      return std::make_unique<AzureSource>(spec.where, std::move(http));
    case PreemptionKind::kFile:
      break;
  }
  return std::make_unique<FileSource>(spec.where);
}

}  // namespace composer
