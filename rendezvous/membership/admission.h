// May a node join? Pure. A refusal is final for the launcher that asked (it is the user's mistake, not the network's),
// unless it is passing: then the launcher asks again for a few seconds.
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
  int nodes = 0;                               // that the job is made of, when that number is fixed; 0: it is not
  int others = 0;                              // other nodes that are connected
  int64_t slots = 0;                           // of these
};

struct JoinRefusal {
  std::string
      field;  // as the user knows it: job, slots, config_hash, plugin_hash, data_paths, version, world_size, node_rank,
              // node_id, …
  std::string message;  // the field, its value and what the others have
  bool passing = false;
};

// nullopt: welcome. Refused: another job; empty or over-long texts; slots outside [1, kMaxSlots]; config_hash,
// plugin_hash, fingerprints of data paths, version or expected world size other than the others'; slots that do not add up to the expected world size when the job's
// nodes are all here, or leave none for those still to come; a node_rank that another connected node was given (passing:
// the other may be this node's former life, whose connection is not known to be dead yet).
std::optional<JoinRefusal> CheckAdmission(absl::string_view job, const proto::NodeInfo& node,
                                          const AdmissionTerms& terms);

}  // namespace composer
