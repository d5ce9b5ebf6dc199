// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/membership/admission.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "rendezvous/worlds/rank_layout.h"

namespace composer {
namespace {

constexpr size_t kMaxTextBytes = 1024;
constexpr int kMaxDataPaths = 64;

std::string Quoted(absl::string_view text) { return absl::StrCat("\"", absl::CHexEscape(text.substr(0, 100)), "\""); }

std::string Name(const proto::NodeInfo& node) { return absl::StrCat("node ", Quoted(node.hostname())); }

std::optional<JoinRefusal> CheckTexts(const proto::NodeInfo& node) {
  if (node.node_id().empty()) return JoinRefusal{"node_id", "node_id is empty"};
  const struct {
    const char* field;
    const std::string& value;
  } texts[] = {{"node_id", node.node_id()},        {"hostname", node.hostname()},
               {"address", node.address()},        {"version", node.version()},
               {"node_group", node.node_group()},  {"config_hash", node.config_hash()},
               {"plugin_hash", node.plugin_hash()}};
  if (node.data_paths_size() > kMaxDataPaths) {
    return JoinRefusal{"data_paths",
                       absl::StrCat(node.data_paths_size(), " data paths, at most ", kMaxDataPaths, " are allowed")};
  }
  for (const proto::DataPath& data : node.data_paths()) {
    if (data.key().size() + data.path().size() + data.fingerprint().size() > 4 * kMaxTextBytes) {
      return JoinRefusal{"data_paths", "a data path is over 4096 bytes long"};
    }
  }
  for (const auto& text : texts) {
    if (text.value.size() <= kMaxTextBytes) continue;
    return JoinRefusal{text.field, absl::StrCat(text.field, " is ", text.value.size(), " bytes long, at most ",
                                                kMaxTextBytes, " are allowed")};
  }
  return std::nullopt;
}

std::optional<JoinRefusal> CheckSame(const char* field, const std::string& mine, const std::string& theirs,
                                     const proto::NodeInfo& other) {
  if (mine == theirs) return std::nullopt;
  return JoinRefusal{field, absl::StrCat(field, " is ", Quoted(mine), ", but ", Name(other), " has ", Quoted(theirs),
                                         ": all nodes of a job must have the same")};
}

// A configuration's hash is followed by those of its keys: "6f0a… seed=1b2c3d optimizers=4e5f60".
std::optional<JoinRefusal> CheckConfiguration(const proto::NodeInfo& node, const proto::NodeInfo& other) {
  const std::set<absl::string_view> mine = absl::StrSplit(node.config_hash(), ' ');
  const std::set<absl::string_view> theirs = absl::StrSplit(other.config_hash(), ' ');
  std::set<absl::string_view> different;
  for (const auto& [these, those] : {std::pair(&mine, &theirs), std::pair(&theirs, &mine)}) {
    for (const absl::string_view part : *these) {
      if (absl::StrContains(part, '=') && !those->contains(part)) different.insert(part.substr(0, part.find('=')));
    }
  }
  if (different.empty()) return CheckSame("config_hash", node.config_hash(), other.config_hash(), other);
  return JoinRefusal{
      "config_hash",
      absl::StrCat("config_hash: the job's ", absl::CHexEscape(absl::StrJoin(different, ", ")), " is not what ",
                   Name(other), " has: all nodes of a job must have the same configuration")};
}

// Both nodes have the same configuration by now, and so the same keys.
std::optional<JoinRefusal> CheckData(const proto::NodeInfo& node, const proto::NodeInfo& other) {
  for (int i = 0; i < std::min(node.data_paths_size(), other.data_paths_size()); ++i) {
    const proto::DataPath &mine = node.data_paths(i), &theirs = other.data_paths(i);
    if (mine.fingerprint() == theirs.fingerprint()) continue;
    return JoinRefusal{"data_paths", absl::StrCat(mine.key(), " ", Quoted(mine.path()), ": ", mine.fingerprint(),
                                                  " here, but ", theirs.fingerprint(), " on ", Name(other),
                                                  ": all nodes of a job must see the same data")};
  }
  return std::nullopt;
}

std::optional<JoinRefusal> CheckWorldSize(const proto::NodeInfo& node, const AdmissionTerms& terms) {
  const int expected = node.expected_world_size();
  if (terms.example != nullptr && terms.example->expected_world_size() != expected) {
    return JoinRefusal{"world_size", absl::StrCat("world_size is ", expected, ", but ", Name(*terms.example), " has ",
                                                  terms.example->expected_world_size(), " (0: not given)")};
  }
  // The size is not fixed, or the node is a spare.
  if (expected <= 0 || terms.nodes <= 0 || terms.others >= terms.nodes) return std::nullopt;
  const int to_come = terms.nodes - terms.others - 1;
  const int64_t sum = terms.slots + node.slots();
  if (to_come == 0 ? sum == expected : sum + to_come <= expected) return std::nullopt;
  return JoinRefusal{"world_size",
                     absl::StrCat("world_size is ", expected, " on ", terms.nodes, " nodes, but ", terms.others,
                                  " of them have ", terms.slots, " workers and this one brings ", node.slots())};
}

}  // namespace

std::optional<JoinRefusal> CheckAdmission(absl::string_view job, const proto::NodeInfo& node,
                                          const AdmissionTerms& terms) {
  if (job != terms.job) {
    return JoinRefusal{"job", absl::StrCat("job is ", Quoted(job), ", but this rendezvous serves ", Quoted(terms.job))};
  }
  if (auto refusal = CheckTexts(node)) return refusal;
  if (node.slots() < 1 || node.slots() > kMaxSlots) {
    return JoinRefusal{"slots",
                       absl::StrCat("slots is ", node.slots(), ", a node must have 1 to ", kMaxSlots, " workers")};
  }
  if (terms.example != nullptr) {
    const proto::NodeInfo& other = *terms.example;
    if (auto refusal = CheckSame("version", node.version(), other.version(), other)) return refusal;
    if (auto refusal = CheckConfiguration(node, other)) return refusal;
    if (auto refusal = CheckSame("plugin_hash", node.plugin_hash(), other.plugin_hash(), other)) return refusal;
    if (auto refusal = CheckData(node, other)) return refusal;
  }
  if (auto refusal = CheckWorldSize(node, terms)) return refusal;
  if (node.node_rank() >= 0 && terms.same_rank != nullptr) {
    return JoinRefusal{
        "node_rank",
        absl::StrCat("node_rank is ", node.node_rank(), ", but ", Name(*terms.same_rank), " has that one already"),
        /*passing=*/true};
  }
  return std::nullopt;
}

}  // namespace composer
