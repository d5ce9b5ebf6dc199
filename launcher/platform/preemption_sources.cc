// SPDX-License-Identifier: Apache-2.0
#include "launcher/platform/preemption_sources.h"

#include <sys/stat.h>

#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace composer {
namespace {

absl::Status BadCode(const MetadataRequest& request, const HttpReply& reply) {
  return absl::UnavailableError(absl::StrCat(request.method, " ", request.url, " answers HTTP ", reply.code));
}

class AwsSource final : public PreemptionSource {
 public:
  AwsSource(std::string base, bool rebalance, HttpFetch fetch)
      : base_(std::move(base)), rebalance_(rebalance), fetch_(std::move(fetch)) {}

  std::string name() const override { return absl::StrCat(rebalance_ ? "aws-rebalance" : "aws", " at ", base_); }

  NoticeOr Look(absl::Time now) override {
    if (token_.empty() || now > token_ends_ - kRenewEarly) RETURN_IF_ERROR(TakeToken(now));
    const char* path = rebalance_ ? "events/recommendations/rebalance" : "spot/instance-action";
    const MetadataRequest request = {.url = absl::StrCat(base_, "/latest/meta-data/", path),
                                     .headers = {absl::StrCat("X-aws-ec2-metadata-token: ", token_)}};
    ASSIGN_OR_RETURN(const HttpReply reply, fetch_(request));
    if (reply.code == 404) return std::nullopt;
    if (reply.code == 401) token_.clear();
    if (reply.code != 200) return BadCode(request, reply);
    return rebalance_ ? ParseAwsRebalance(reply.body) : ParseAwsInstanceAction(reply.body);
  }

 private:
  static constexpr int kTokenSeconds = 3600;
  static constexpr absl::Duration kRenewEarly = absl::Seconds(15);

  absl::Status TakeToken(absl::Time now) {
    const MetadataRequest request = {
        .method = "PUT",
        .url = absl::StrCat(base_, "/latest/api/token"),
        .headers = {absl::StrCat("X-aws-ec2-metadata-token-ttl-seconds: ", kTokenSeconds)}};
    ASSIGN_OR_RETURN(const HttpReply reply, fetch_(request));
    if (reply.code != 200) return BadCode(request, reply);
    const absl::string_view token = absl::StripAsciiWhitespace(reply.body);
    for (const char c : token) {
      if (!absl::ascii_isgraph(c)) return absl::UnavailableError(absl::StrCat(request.url, " gives no token"));
    }
    if (token.empty() || token.size() > 1024) {
      return absl::UnavailableError(absl::StrCat(request.url, " gives no token"));
    }
    token_ = std::string(token);
    token_ends_ = now + absl::Seconds(kTokenSeconds);
    return absl::OkStatus();
  }

  const std::string base_;
  const bool rebalance_;
  const HttpFetch fetch_;
  std::string token_;
  absl::Time token_ends_;
};

class GcpSource final : public PreemptionSource {
 public:
  GcpSource(std::string base, HttpFetch fetch) : base_(std::move(base)), fetch_(std::move(fetch)) {}

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
    const MetadataRequest request = {.url = absl::StrCat(base_, "/computeMetadata/v1/instance/", key),
                                     .headers = {"Metadata-Flavor: Google"}};
    ASSIGN_OR_RETURN(HttpReply reply, fetch_(request));
    if (reply.code != 200) return BadCode(request, reply);
    return std::move(reply.body);
  }

  const std::string base_;
  const HttpFetch fetch_;
};

class AzureSource final : public PreemptionSource {
 public:
  AzureSource(std::string base, HttpFetch fetch) : base_(std::move(base)), fetch_(std::move(fetch)) {}

  std::string name() const override { return absl::StrCat("azure at ", base_); }
  // The first request of a machine switches the service on, which takes up to two minutes.
  absl::Duration patience() const override { return absl::Seconds(150); }

  NoticeOr Look(absl::Time) override {
    if (machine_.empty()) {
      ASSIGN_OR_RETURN(const std::string name, Send({.url = Url("instance/compute/name", "2020-09-01&format=text")}));
      machine_ = std::string(absl::StripAsciiWhitespace(name));
      if (machine_.empty()) return absl::UnavailableError("Azure does not tell this machine's name");
    }
    ASSIGN_OR_RETURN(const std::string events, Send({.url = Url("scheduledevents", kEventsVersion)}));
    return ParseAzureEvents(events, machine_, &event_ids_);
  }

  absl::Status Acknowledge() override {
    if (event_ids_.empty()) return absl::OkStatus();
    return Send({.method = "POST",
                 .url = Url("scheduledevents", kEventsVersion),
                 .headers = {"Content-Type: application/json"},
                 .body = AzureAcknowledgement(event_ids_)})
        .status();
  }

 private:
  static constexpr char kEventsVersion[] = "2020-07-01";

  std::string Url(absl::string_view path, absl::string_view version) const {
    return absl::StrCat(base_, "/metadata/", path, "?api-version=", version);
  }

  absl::StatusOr<std::string> Send(MetadataRequest request) {
    request.headers.push_back("Metadata: true");
    ASSIGN_OR_RETURN(HttpReply reply, fetch_(request));
    if (reply.code != 200) return BadCode(request, reply);
    return std::move(reply.body);
  }

  const std::string base_;
  const HttpFetch fetch_;
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

std::unique_ptr<PreemptionSource> MakePreemptionSource(const PreemptionSpec& spec, const HttpFetch& fetch) {
  switch (spec.kind) {
    case PreemptionKind::kAws:
    case PreemptionKind::kAwsRebalance:
      return std::make_unique<AwsSource>(spec.where, spec.kind == PreemptionKind::kAwsRebalance, fetch);
    case PreemptionKind::kGcp:
      return std::make_unique<GcpSource>(spec.where, fetch);
    case PreemptionKind::kAzure:
      return std::make_unique<AzureSource>(spec.where, fetch);
    case PreemptionKind::kFile:
      break;
  }
  return std::make_unique<FileSource>(spec.where);
}

}  // namespace composer
