// SPDX-License-Identifier: Apache-2.0
#include "launcher/platform/preemption_notice.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/format/json.h"
#include "base/json_members.h"
#include "base/status_macros.h"

namespace composer {
namespace {

using Json = nlohmann::ordered_json;

constexpr absl::Duration kGcpPreemption = absl::Seconds(30);
constexpr absl::Duration kGcpMaintenance = absl::Seconds(60);
constexpr char kAzureTime[] = "%a, %d %b %Y %H:%M:%S GMT";

absl::Status Unexpected(absl::string_view what, absl::string_view body) {
  std::string shown(body.substr(0, 80));
  for (char& c : shown) {
    if (!absl::ascii_isprint(c)) c = '?';
  }
  return absl::InvalidArgumentError(absl::StrCat("unexpected answer, ", what, ": ", shown));
}

absl::StatusOr<Json> ParseObject(absl::string_view body) {
  if (body.size() > kMaxNoticeBytes) return Unexpected("too long", body);
  Json document = ParseOrderedJson(body);
  if (!document.is_object()) return Unexpected("not a JSON object", body);
  return document;
}

// Returns a text member without control characters; "" if there is none.
std::string Member(const Json& object, const char* name) {
  std::string text;
  TakeMember(object, name, text);
  text.resize(std::min(text.size(), size_t{200}));
  for (char& c : text) {
    if (absl::ascii_iscntrl(c)) c = '?';
  }
  return text;
}

bool ParseUtc(const std::string& text, absl::Time* time) {
  return absl::ParseTime(absl::RFC3339_full, text, time, nullptr);
}

bool EndsTheMachine(const std::string& type) {
  return type == "Preempt" || type == "Terminate" || type == "Reboot" || type == "Redeploy";
}

bool Concerns(const Json& event, absl::string_view machine) {
  const auto resources = event.find("Resources");
  if (resources == event.end() || !resources->is_array()) return false;
  return std::any_of(resources->begin(), resources->end(), [&](const Json& name) {
    return name.is_string() && absl::EqualsIgnoreCase(name.get_ref<const std::string&>(), machine);
  });
}

}  // namespace

std::string DescribeNotice(const Notice& notice, absl::Time now) {
  std::string text = notice.what;
  if (notice.deadline != absl::InfiniteFuture()) {
    const int64_t seconds = std::max<int64_t>(0, absl::ToInt64Seconds(notice.deadline - now));
    absl::StrAppend(&text, " in ", seconds, " s");
  }
  return absl::StrCat(text, " (", notice.origin, ")");
}

NoticeOr ParseAwsInstanceAction(absl::string_view body) {
  ASSIGN_OR_RETURN(const Json document, ParseObject(body));
  const std::string action = Member(document, "action");
  if (action.empty()) return Unexpected("without an action", body);
  Notice notice = {.what = absl::StrCat("AWS will ", action, " this spot instance"), .origin = "aws"};
  if (!ParseUtc(Member(document, "time"), &notice.deadline)) notice.deadline = absl::InfiniteFuture();
  return notice;
}

NoticeOr ParseAwsRebalance(absl::string_view body) {
  ASSIGN_OR_RETURN(const Json document, ParseObject(body));
  if (Member(document, "noticeTime").empty()) return Unexpected("without a noticeTime", body);
  return Notice{.what = "AWS may soon interrupt this spot instance (rebalance recommendation)", .origin = "aws"};
}

NoticeOr ParseGcpPreempted(absl::string_view body, absl::Time now) {
  const absl::string_view word = absl::StripAsciiWhitespace(body);
  if (word == "FALSE") return std::nullopt;
  if (word != "TRUE") return Unexpected("neither TRUE nor FALSE", body);
  return Notice{.what = "GCP preempts this instance", .deadline = now + kGcpPreemption, .origin = "gcp"};
}

NoticeOr ParseGcpMaintenance(absl::string_view body, absl::Time now) {
  const absl::string_view word = absl::StripAsciiWhitespace(body);
  if (word == "NONE" || word == "MIGRATE_ON_HOST_MAINTENANCE") return std::nullopt;
  if (word != "TERMINATE_ON_HOST_MAINTENANCE") return Unexpected("no maintenance event that is known", body);
  return Notice{.what = "GCP will terminate this instance for maintenance of its host",
                .deadline = now + kGcpMaintenance,
                .origin = "gcp"};
}

NoticeOr ParseAzureEvents(absl::string_view body, absl::string_view machine, std::vector<std::string>* event_ids) {
  event_ids->clear();
  ASSIGN_OR_RETURN(const Json document, ParseObject(body));
  const auto events = document.find("Events");
  if (events == document.end() || !events->is_array()) return Unexpected("without a list of Events", body);
  std::optional<Notice> first;
  for (const Json& event : *events) {
    if (!event.is_object()) return Unexpected("an event is not an object", body);
    const std::string type = Member(event, "EventType"), id = Member(event, "EventId");
    if (!EndsTheMachine(type) || !Concerns(event, machine)) continue;
    if (!id.empty()) event_ids->push_back(id);
    Notice notice = {.what = absl::StrCat("Azure event ", type, " for this machine"), .origin = "azure"};
    std::string error;
    if (!absl::ParseTime(kAzureTime, Member(event, "NotBefore"), &notice.deadline, &error)) {
      notice.deadline = absl::InfiniteFuture();  // it has begun, or Azure does not say
    }
    if (!first.has_value() || notice.deadline < first->deadline) first = std::move(notice);
  }
  return first;
}

std::string AzureAcknowledgement(const std::vector<std::string>& event_ids) {
  Json requests = Json::array();
  for (const std::string& id : event_ids) requests.push_back({{"EventId", id}});
  return Json({{"StartRequests", requests}}).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace composer
