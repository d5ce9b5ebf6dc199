// SPDX-License-Identifier: Apache-2.0
#include "launcher/control/job_roster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace composer {
namespace {

constexpr int kPage = 1000;
constexpr absl::Duration kPollInterval = absl::Milliseconds(20);
constexpr double kFreshSeconds = 0.35;  // a node that reported this recently is not asked again

bool HasFreshReport(const proto::NodePlacement& member, absl::Duration since_asked) {
  return member.has_report() && member.report_age_seconds() <= absl::ToDoubleSeconds(since_asked) + kFreshSeconds;
}

// Asks the nodes of a page to report, and fetches it again until all connected ones have.
absl::StatusOr<proto::RosterReply> FreshPage(int first, const AskRoster& ask) {
  const absl::Time asked = absl::Now();
  absl::StatusOr<proto::RosterReply> page = ask(first, kPage, /*look=*/true);
  while (page.ok() && absl::Now() < asked + kReportPatience) {
    const absl::Duration since = absl::Now() - asked;
    const bool all = std::all_of(page->members().begin(), page->members().end(), [&](const auto& member) {
      return !member.connected() || HasFreshReport(member, since);
    });
    if (all) break;
    absl::SleepFor(kPollInterval);
    page = ask(first, kPage, /*look=*/false);
  }
  return page;
}

void TakeLastCause(proto::JobStatus& status) {
  int most = status.restarts();
  for (const proto::NodePlacement& member : status.members()) {
    const proto::NodeReport& report = member.report();
    if (report.last_cause().empty() || (!status.last_cause().empty() && report.restarts() <= most)) continue;
    status.set_last_cause(report.last_cause());
    most = report.restarts();
  }
}

}  // namespace

void AddMembers(proto::JobStatus& status, const AskRoster& ask) {
  int nodes = 1;
  for (int first = 0; first < nodes; first += kPage) {
    absl::StatusOr<proto::RosterReply> page = FreshPage(first, ask);
    if (!page.ok()) {
      status.set_members_missing(absl::StrCat("the rendezvous does not answer: ", page.status().message()));
      break;
    }
    nodes = page->nodes();
    status.set_waiting(page->waiting());
    for (proto::NodePlacement& member : *page->mutable_members()) *status.add_members() = std::move(member);
  }
  TakeLastCause(status);
}

}  // namespace composer
