// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/admission.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/rank_layout.h"

namespace composer {
namespace {

constexpr size_t kMaxTextBytes = 1024;

std::string Quoted(absl::string_view text) { return absl::StrCat("\"", absl::CHexEscape(text.substr(0, 100)), "\""); }

std::string Name(const proto::NodeInfo& node) { return absl::StrCat("node ", Quoted(node.hostname())); }

std::optional<JoinRefusal> CheckTexts(const proto::NodeInfo& node) {
  if (node.node_id().empty()) return JoinRefusal{"node_id", "node_id is empty"};
  const struct {
    const char* field;
    const std::string& value;
  } texts[] = {{"node_id", node.node_id()},
               {"hostname", node.hostname()},
               {"address", node.address()},
               {"version", node.version()},
               {"config_hash", node.config_hash()}};
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
    if (auto refusal = CheckSame("config_hash", node.config_hash(), other.config_hash(), other)) return refusal;
  }
  if (node.node_rank() >= 0 && terms.same_rank != nullptr) {
    return JoinRefusal{"node_rank", absl::StrCat("node_rank is ", node.node_rank(), ", but ", Name(*terms.same_rank),
                                                 " has that one already")};
  }
  return std::nullopt;
}

}  // namespace composer
