// May a node join? Pure. A refusal is final for the launcher that asked: it is the user's mistake, not the network's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/common.pb.h"

namespace composer {

// What the nodes that are already connected agree on.
struct AdmissionTerms {
  std::string job;
  const proto::NodeInfo* example =
      nullptr;  // any connected node; nullptr: none yet, so config_hash and version are free
  const proto::NodeInfo* same_rank = nullptr;  // a connected node that was given the same node_rank
};

struct JoinRefusal {
  std::string field;    // as the user knows it: job, slots, config_hash, plugin_hash, data_paths, version, node_rank,
                        // node_id, address
  std::string message;  // the field, its value and what the others have
};

// nullopt: welcome. Refused: another job; empty or over-long texts; slots outside [1, kMaxSlots]; config_hash,
// plugin_hash, fingerprints of data paths or version other than the others'; a node_rank that another connected node was given.
std::optional<JoinRefusal> CheckAdmission(absl::string_view job, const proto::NodeInfo& node,
                                          const AdmissionTerms& terms);

}  // namespace composer
