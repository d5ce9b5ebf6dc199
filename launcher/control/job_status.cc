// SPDX-License-Identifier: Apache-2.0
#include "launcher/control/job_status.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "proto/worker.pb.h"

namespace composer {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxShownRanks = 256;
constexpr double kMuchDataWait = 0.1;  // as in the profiler's verdict
constexpr int64_t kStepsBehind = 2;
constexpr double kSecondsSilent = 5;

Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

std::string Share(double share) { return std::isnan(share) ? "-" : absl::StrFormat("%.1f%%", 100 * share); }

std::string Age(double seconds) { return seconds < 0 ? "-" : absl::StrFormat("%.1fs", seconds); }

std::string Wall(double seconds) {
  const auto whole = static_cast<int64_t>(std::max(0.0, seconds));
  return whole == 0 ? "0s" : absl::FormatDuration(absl::Seconds(whole));
}

std::string Value(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return absl::StrFormat("%.17g", value);
}

// Collects the samples of one metric after another under its # HELP and # TYPE.
class MetricsText {
 public:
  explicit MetricsText(std::string labels) : labels_(std::move(labels)) {}

  void Begin(absl::string_view name, absl::string_view type, absl::string_view help) {
    name_ = std::string(name);
    absl::StrAppend(&text_, "# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
  }
  void Add(double value, absl::string_view more_labels = "") {
    absl::StrAppend(&text_, name_, "{", labels_, more_labels, "} ", Value(value), "\n");
  }
  void One(absl::string_view name, absl::string_view type, absl::string_view help, double value) {
    Begin(name, type, help);
    Add(value);
  }
  std::string text() const { return text_; }

 private:
  const std::string labels_;
  std::string name_;
  std::string text_;
};

struct ShownRank {
  int node_rank = 0;
  const proto::RankStatus* rank = nullptr;
};

std::vector<ShownRank> RanksOfThisNode(const proto::JobStatus& s) {
  std::vector<ShownRank> ranks;
  for (const proto::RankStatus& rank : s.ranks()) ranks.push_back({s.node_rank(), &rank});
  return ranks;
}

std::vector<ShownRank> RanksOfAllNodes(const proto::JobStatus& s) {
  std::vector<ShownRank> ranks;
  for (const proto::NodePlacement& member : s.members()) {
    for (const proto::RankStatus& rank : member.report().ranks()) ranks.push_back({member.node_rank(), &rank});
  }
  return ranks;
}

std::string RanksTable(const std::vector<ShownRank>& ranks, bool with_node) {
  if (ranks.empty()) return "";
  std::string text = absl::StrFormat("%6s%s %6s %8s %-11s %10s %10s %10s %10s\n", "rank", with_node ? "   node" : "",
                                     "local", "pid", "phase", "step", "loss", "data wait", "heartbeat");
  for (const auto& [node_rank, r] : ranks) {
    absl::StrAppendFormat(&text, "%6d%s %6d %8d %-11s %10d %10s %10s %10s\n", r->rank(),
                          with_node ? absl::StrFormat(" %6d", node_rank) : "", r->local_rank(), r->pid(), r->phase(),
                          r->step(), std::isnan(r->loss()) ? "-" : absl::StrFormat("%.4g", r->loss()),
                          Share(r->data_wait()), Age(r->heartbeat_age_seconds()));
  }
  return text;
}

// Returns a line about the rank that waits longest for its data, if that is long.
std::string DataWaitLine(const std::vector<ShownRank>& ranks) {
  const proto::RankStatus* most = nullptr;
  for (const ShownRank& shown : ranks) {
    if (shown.rank->phase() != "training" || !(shown.rank->data_wait() > kMuchDataWait)) continue;
    if (most == nullptr || shown.rank->data_wait() > most->data_wait()) most = shown.rank;
  }
  if (most == nullptr) return "";
  return absl::StrFormat(
      "rank %d waits for data %.0f %% of the time: read ahead with more threads (train_dataloader.num_workers), keep "
      "the data on a local disk, or do less work a sample\n",
      most->rank(), 100 * most->data_wait());
}

std::string StarvedLines(const std::vector<ShownRank>& ranks) {
  std::string text;
  for (const ShownRank& shown : ranks) {
    if (!shown.rank->starved().empty()) absl::StrAppend(&text, shown.rank->starved(), "\n");
  }
  return text;
}

// Returns "running", "lost" or "no report".
std::string StateOf(const proto::NodePlacement& member) {
  if (!member.connected()) return "lost";
  return member.has_report() ? member.report().state() : "no report";
}

std::string NodesTable(const proto::JobStatus& s) {
  if (s.members().empty()) return "";
  std::string text = absl::StrFormat("%6s %-20s %-15s %7s %-10s %10s %8s\n", "node", "host", "address", "ranks",
                                     "state", "step", "restarts");
  for (const proto::NodePlacement& m : s.members()) {
    int64_t step = 0;
    for (const proto::RankStatus& rank : m.report().ranks()) step = std::max(step, rank.step());
    const int slots = std::max(1, m.node().slots());
    const std::string ranks =
        slots == 1 ? absl::StrCat(m.base_rank()) : absl::StrCat(m.base_rank(), "-", m.base_rank() + slots - 1);
    absl::StrAppendFormat(&text, "%6d %-20s %-15s %7s %-10s %10s %8s\n", m.node_rank(), m.node().hostname(),
                          m.node().address(), m.connected() ? ranks : "-", StateOf(m),
                          m.has_report() ? absl::StrCat(step) : "-",
                          m.has_report() ? absl::StrCat(m.report().restarts()) : "-");
  }
  if (s.waiting() > 0)
    absl::StrAppend(&text, s.waiting(), s.waiting() == 1 ? " more node waits" : " more nodes wait", "\n");
  return text;
}

Json RankJson(const proto::RankStatus& r, int64_t furthest) {
  return {{"rank", r.rank()},
          {"local_rank", r.local_rank()},
          {"pid", r.pid()},
          {"phase", r.phase()},
          {"step", r.step()},
          {"samples", r.samples()},
          {"loss", Number(r.loss())},
          {"data_wait", Number(r.data_wait())},
          {"behind", IsBehind(r, furthest)},
          {"starved", r.starved()},
          {"heartbeat_age_seconds", r.heartbeat_age_seconds() < 0 ? Json() : Number(r.heartbeat_age_seconds())}};
}

Json MemberJson(const proto::NodePlacement& m, int64_t furthest) {
  Json json = {{"node_rank", m.node_rank()},
               {"host", m.node().hostname()},
               {"address", m.node().address()},
               {"group", m.node().node_group()},
               {"connected", m.connected()},
               {"base_rank", m.base_rank()},
               {"slots", m.node().slots()},
               {"state", StateOf(m)},
               {"restarts", nullptr},
               {"report_age_seconds", nullptr},
               {"last_cause", m.report().last_cause()}};
  if (m.has_report()) {
    json["restarts"] = m.report().restarts();
    json["report_age_seconds"] = Number(m.report_age_seconds());
  }
  json["ranks"] = Json::array();
  for (const proto::RankStatus& r : m.report().ranks()) json["ranks"].push_back(RankJson(r, furthest));
  return json;
}

}  // namespace

std::string PhaseName(int phase) {
  return absl::AsciiStrToLower(absl::StripPrefix(proto::Phase_Name(static_cast<proto::Phase>(phase)), "PHASE_"));
}

int64_t FurthestStep(const proto::JobStatus& status) {
  int64_t furthest = 0;
  for (const proto::RankStatus& rank : status.ranks()) furthest = std::max(furthest, rank.step());
  for (const proto::NodePlacement& member : status.members()) {
    for (const proto::RankStatus& rank : member.report().ranks()) furthest = std::max(furthest, rank.step());
  }
  return furthest;
}

bool IsBehind(const proto::RankStatus& rank, int64_t furthest) {
  const bool slow = rank.phase() == "training" && rank.step() + kStepsBehind < furthest;
  return slow || rank.heartbeat_age_seconds() > kSecondsSilent;
}

std::string DescribeStatus(const proto::JobStatus& s) {
  std::string text = absl::StrFormat("%s: %s for %s, launcher %d on %s\n", s.job(), s.state(), Wall(s.wall_seconds()),
                                     s.pid(), s.host());
  absl::StrAppendFormat(
      &text, "generation %d: %d rank%s on %d node%s, this is node %d; %d restart%s (%d without progress allowed)\n",
      s.generation(), s.world_size(), s.world_size() == 1 ? "" : "s", s.nodes(), s.nodes() == 1 ? "" : "s",
      s.node_rank(), s.restarts(), s.restarts() == 1 ? "" : "s", s.max_restarts());
  if (s.launch() > 1) {
    absl::StrAppendFormat(&text, "launch %d of the run; %d restart%s in all of them\n", s.launch(), s.total_restarts(),
                          s.total_restarts() == 1 ? "" : "s");
  }
  if (s.step() > 0) {
    absl::StrAppendFormat(&text, "step %d, %d samples, %.3g steps/s, goodput %.1f %%\n", s.step(), s.samples(),
                          s.steps_per_second(), 100 * s.goodput());
  }
  if (!s.last_cause().empty()) absl::StrAppend(&text, "last failure: ", s.last_cause(), "\n");
  if (!s.last_checkpoint().empty()) absl::StrAppend(&text, "last checkpoint: ", s.last_checkpoint(), "\n");
  if (!s.run_folder().empty()) absl::StrAppend(&text, "run folder: ", s.run_folder(), "\n");
  if (!s.members_missing().empty())
    absl::StrAppend(&text, "of the other nodes nothing is known: ", s.members_missing(), "\n");
  const bool all = !s.members().empty() && s.world_size() <= kMaxShownRanks;
  const std::vector<ShownRank> ranks = all ? RanksOfAllNodes(s) : RanksOfThisNode(s);
  absl::StrAppend(&text, DataWaitLine(ranks), StarvedLines(ranks), NodesTable(s), RanksTable(ranks, all));
  return text;
}

std::string StatusJson(const proto::JobStatus& s) {
  Json json = {{"job", s.job()},
               {"run_name", s.run_name()},
               {"run_folder", s.run_folder()},
               {"host", s.host()},
               {"pid", s.pid()},
               {"version", s.version()},
               {"state", s.state()},
               {"generation", s.generation()},
               {"attempt", s.attempt()},
               {"world_size", s.world_size()},
               {"nodes", s.nodes()},
               {"node_rank", s.node_rank()},
               {"launch", s.launch()},
               {"restarts", s.restarts()},
               {"max_restarts", s.max_restarts()},
               {"total_restarts", s.total_restarts()},
               {"last_cause", s.last_cause()},
               {"step", s.step()},
               {"samples", s.samples()},
               {"steps_per_second", Number(s.steps_per_second())},
               {"goodput", Number(s.goodput())},
               {"wall_seconds", Number(s.wall_seconds())},
               {"last_checkpoint", s.last_checkpoint()}};
  json["ranks"] = Json::array();
  const int64_t furthest = FurthestStep(s);
  for (const proto::RankStatus& r : s.ranks()) json["ranks"].push_back(RankJson(r, furthest));
  json["waiting"] = s.waiting();
  json["members_missing"] = s.members_missing();
  json["members"] = Json::array();
  for (const proto::NodePlacement& m : s.members()) json["members"].push_back(MemberJson(m, furthest));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string EscapeLabel(absl::string_view value) {
  return absl::StrReplaceAll(value, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}});
}

std::string PrometheusText(const proto::JobStatus& s) {
  MetricsText m(absl::StrCat("job=\"", EscapeLabel(s.run_name().empty() ? s.job() : s.run_name()), "\",node=\"",
                             EscapeLabel(s.host()), "\""));
  m.Begin("composer_info", "gauge", "Always 1; what runs here.");
  m.Add(1, absl::StrCat(",version=\"", EscapeLabel(s.version()), "\",state=\"", EscapeLabel(s.state()), "\""));
  m.One("composer_running", "gauge", "1 while a generation runs.", s.state() == "running" ? 1 : 0);
  m.One("composer_generation", "gauge", "Number of the world; each new world has a larger one.",
        static_cast<double>(s.generation()));
  m.One("composer_restarts_total", "counter", "Restarts since the launch; /status has those of all launches.",
        s.restarts());
  m.One("composer_world_size", "gauge", "Ranks of the world.", s.world_size());
  m.One("composer_nodes", "gauge", "Nodes of the world.", s.nodes());
  m.One("composer_wall_seconds_total", "counter", "Seconds since the launch.", s.wall_seconds());
  m.One("composer_step", "gauge", "Optimizer steps of the run; falls when a restart goes back to a checkpoint.",
        static_cast<double>(s.step()));
  m.One("composer_samples", "gauge", "Samples of the run; falls, too.", static_cast<double>(s.samples()));
  m.One("composer_steps_per_second", "gauge", "Steps a second over the last 30 seconds.", s.steps_per_second());
  m.One("composer_goodput_ratio", "gauge", "Share of the wall time spent on steps that count.", s.goodput());
  if (s.ranks().empty()) return m.text();
  const auto each = [&](absl::string_view name, absl::string_view help,
                        const std::function<double(const proto::RankStatus&)>& value) {
    m.Begin(name, "gauge", help);
    for (const proto::RankStatus& r : s.ranks()) m.Add(value(r), absl::StrCat(",rank=\"", r.rank(), "\""));
  };
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  each("composer_rank_up", "1 while the rank's process lives.",
       [](const auto& r) { return r.phase() == "gone" ? 0 : 1; });
  each("composer_rank_step", "Optimizer steps the rank has done.",
       [](const auto& r) { return static_cast<double>(r.step()); });
  each("composer_heartbeat_age_seconds",
       "Since the rank was last heard of; NaN for programs, which send no heartbeats.",
       [](const auto& r) { return r.heartbeat_age_seconds() < 0 ? kNone : r.heartbeat_age_seconds(); });
  each("composer_train_loss", "Loss of the rank's last step; NaN before the first.",
       [](const auto& r) { return r.loss(); });
  each("composer_data_wait_ratio",
       "Share of the last steps' time in which the rank waited for batches; NaN before the second.",
       [](const auto& r) { return r.data_wait(); });
  return m.text();
}

}  // namespace composer
