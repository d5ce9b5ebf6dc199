// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/byte_exchange.h"

#include "absl/strings/str_cat.h"

namespace composer {

SharingDecision DecideSharing(const SharingFacts& facts) {
  if (facts.world_size == 1) return {false, "there is one rank"};
  if (facts.remote_store)
    return {true, absl::StrCat("the store would be asked ", facts.world_size, " times for each byte")};
  if (facts.hosts > 1) return {true, absl::StrCat(facts.hosts, " hosts would read each file")};
  return {false, "all ranks are on one host, whose page cache gives them what the first one read"};
}

}  // namespace composer
