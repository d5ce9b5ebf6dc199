// SPDX-License-Identifier: Apache-2.0
#include "trainer/collectives/rank_environment.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int>::max();

absl::StatusOr<int64_t> ReadNumber(const Environment& environment, const char* name, int64_t fallback, int64_t low,
                                   int64_t high) {
  const std::optional<std::string> text = environment.Get(name);
  if (!text.has_value()) return fallback;
  int64_t value = 0;
  const bool digits = std::all_of(text->begin(), text->end(), absl::ascii_isdigit);
  if (digits && absl::SimpleAtoi(*text, &value) && value >= low && value <= high) return value;
  return absl::InvalidArgumentError(absl::StrCat("environment variable ", name, " is \"", absl::CHexEscape(*text),
                                                 "\", it must be a number from ", low, " to ", high));
}

}  // namespace

absl::StatusOr<RankEnvironment> ReadRankEnvironment(const Environment& environment) {
  RankEnvironment result;
  ASSIGN_OR_RETURN(result.world_size, ReadNumber(environment, "WORLD_SIZE", 1, 1, kMaxInt));
  ASSIGN_OR_RETURN(result.rank, ReadNumber(environment, "RANK", 0, 0, result.world_size - 1));
  ASSIGN_OR_RETURN(result.local_world_size,
                   ReadNumber(environment, "LOCAL_WORLD_SIZE", result.world_size, 1, result.world_size));
  const int default_local_rank = result.rank % result.local_world_size;
  ASSIGN_OR_RETURN(result.local_rank,
                   ReadNumber(environment, "LOCAL_RANK", default_local_rank, 0, result.local_world_size - 1));
  ASSIGN_OR_RETURN(result.node_rank, ReadNumber(environment, "NODE_RANK", 0, 0, kMaxInt));
  ASSIGN_OR_RETURN(result.master_port, ReadNumber(environment, "MASTER_PORT", 0, 0, 65535));
  ASSIGN_OR_RETURN(result.generation,
                   ReadNumber(environment, "COMPOSER_GENERATION", 0, 0, std::numeric_limits<int64_t>::max()));
  if (environment.Get("COMPOSER_HUB").has_value()) result.launch = environment.GetOr("COMPOSER_LAUNCH_ID", "");
  result.job = environment.GetOr("COMPOSER_JOB", "");
  result.hub_address = environment.GetOr("COMPOSER_HUB", "");
  result.progress_page_path = environment.GetOr("COMPOSER_PROGRESS_PAGE", "");
  result.node_address = environment.GetOr("COMPOSER_NODE_ADDRESS", "");
  result.peer_memory = environment.GetOr("COMPOSER_PEER_MEMORY", "");
  result.peer_address = environment.GetOr("COMPOSER_PEER_ADDRESS", "");
  ASSIGN_OR_RETURN(result.launchers, ReadNumber(environment, "GROUP_WORLD_SIZE", 1, 1, kMaxInt));
  result.master_address = environment.GetOr("MASTER_ADDR", "");
  if (result.world_size > 1 && environment.Get("RANK") == std::nullopt) {
    return absl::InvalidArgumentError(
        absl::StrCat("environment variable RANK is not set, but WORLD_SIZE is ", result.world_size));
  }
  result.agent_store = environment.GetOr("TORCHELASTIC_USE_AGENT_STORE", "") == "True";
  // An agent of one node keeps its store when it restarts its workers; with several nodes each attempt has a new one,
  // and the nodes count attempts differently.
  const std::string attempt = result.spans_nodes() ? "" : environment.GetOr("TORCHELASTIC_RESTART_COUNT", "");
  result.store_prefix = absl::StrCat("composer/", environment.GetOr("TORCHELASTIC_RUN_ID", ""), "/", attempt);
  if (result.world_size > 1 && !result.has_launcher() && (result.master_address.empty() || result.master_port == 0)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "WORLD_SIZE is ", result.world_size,
        ", but the ranks have nowhere to meet: neither COMPOSER_HUB nor MASTER_ADDR and MASTER_PORT are set; "
        "start them with `composer -n ",
        result.local_world_size, " …`, or give both variables to each of them"));
  }
  return result;
}

}  // namespace composer
