// A failure's cause as it may be sent: bounded, and valid UTF-8, because protobuf refuses to parse text that is not.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "absl/time/time.h"
#include "proto/common.pb.h"

namespace composer {

inline constexpr size_t kMaxCauseMessageBytes = 4 << 10;  // the beginning is kept
inline constexpr size_t kMaxCauseStderrBytes = 16 << 10;  // the end is kept

// Replaces every byte that is not part of a valid UTF-8 sequence by '?', and cuts message, node_id, stderr_tail and the
// verdict's texts to their limits.
void TidyCause(proto::FailureCause& cause);

// Cuts `text` to the limit and makes it valid UTF-8, as above.
void TidyText(std::string& text, size_t max_bytes);

// Returns whether `later`, which arrived second, is the cause of the failure that was reported first. Decides by what
// happened, not by clocks, which differ between hosts:
//
//   reported first                             arrived second                        better
//   a worker's exit with its own reason        anything                              no
//   a worker's exit that others explain (69)   another's with its own reason,        yes
//                                              or a node that was lost
//   a node was lost                            anything                              no
//   a node joined again, without saying why    a worker's exit with its own reason,  yes
//                                              or a node that was lost
bool IsBetterCause(const proto::FailureCause& later, const proto::FailureCause& told);

// Returns a cause that does not come from a worker: a node was lost, or the rendezvous decided. `vague`: it says what
// happened, but not why.
proto::FailureCause NodeCause(const std::string& node_id, std::string message, absl::Time now, bool vague = false);

}  // namespace composer
