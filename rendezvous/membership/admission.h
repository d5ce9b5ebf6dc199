// Decides whether a node may join. Pure. A refusal is final for the launcher that asked (it is the user's mistake, not
// the network's), unless it is passing: then the launcher keeps asking for a few seconds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/common.pb.h"

namespace composer {

// What the nodes that are already connected agree on.
struct AdmissionTerms {
  std::string job;
  const proto::NodeInfo* example = nullptr;    // any connected node; nullptr: none yet, so this one sets the terms
  const proto::NodeInfo* same_rank = nullptr;  // a connected node that was given the same node_rank
  int nodes = 0;                               // size of the job in nodes, when that is fixed; 0: it is not
  int others = 0;                              // other nodes that are connected
  int64_t slots = 0;                           // of the other nodes
};

struct JoinRefusal {
  // As the user knows it: job, slots, config_hash, plugin_hash, data_paths, version, world_size, node_rank,
  // node_id, …
  std::string field;
  std::string message;  // the field, its value and what the others have
  bool passing = false;
};

// Returns nullopt when the node is welcome. Refused are: another job; empty or over-long texts; slots outside [1,
// kMaxSlots]; a config_hash, plugin_hash, fingerprint of a data path, version or expected world size that differs from
// the others'; slots that do not add up to the expected world size when all of the job's nodes are present, or that
// leave none for those still to come; a node_rank that another connected node was given (passing: the other may be this
// node's predecessor, whose connection is not known to be dead yet).
std::optional<JoinRefusal> CheckAdmission(absl::string_view job, const proto::NodeInfo& node,
                                          const AdmissionTerms& terms);

}  // namespace composer
