// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/exchange/byte_exchange.h"

#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/machine_stats.h"
#include "base/status_macros.h"

namespace composer {

SharingDecision DecideSharing(const SharingFacts& facts) {
  if (facts.world_size == 1) return {false, "there is one rank"};
  if (facts.remote_store)
    return {true, absl::StrCat("the store would be asked ", facts.world_size, " times for each byte")};
  if (facts.hosts > 1) return {true, absl::StrCat(facts.hosts, " hosts would read each file")};
  return {false, "all ranks are on one host, whose page cache gives them what the first one read"};
}

absl::StatusOr<SharingDecision> AgreeOnSharing(RankExchange& exchange, bool remote_store) {
  const auto hosts = exchange.Gather(HostName());
  absl::StatusOr<std::string> answer = "";  // '+' or '-', followed by the reason
  if (!hosts.ok()) {
    answer = hosts.status();
  } else {
    const std::set<std::string> different(hosts->begin(), hosts->end());
    const SharingDecision decision =
        DecideSharing({exchange.world_size(), static_cast<int>(different.size()), remote_store});
    answer = absl::StrCat(decision.share ? "+" : "-", decision.reason);
  }
  ASSIGN_OR_RETURN(const std::string text, exchange.Broadcast(std::move(answer)));
  return SharingDecision{absl::StartsWith(text, "+"), text.substr(1)};
}

absl::Status AgreeOn(ByteExchange& exchange, const absl::Status& status) {
  const absl::StatusOr<bool> all = exchange.All(status.ok());
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(all.status());
  return *all ? absl::OkStatus() : absl::UnavailableError("another rank could not load the checkpoint");
}

}  // namespace composer
