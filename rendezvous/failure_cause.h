// A failure's cause as it may travel: bounded, and valid UTF-8, because protobuf refuses to parse text that is not.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "absl/time/time.h"
#include "proto/common.pb.h"

namespace composer {

inline constexpr size_t kMaxCauseMessageBytes = 4 << 10;  // the beginning is kept
inline constexpr size_t kMaxCauseStderrBytes = 16 << 10;  // the end is kept

// Every byte that is not part of a valid UTF-8 sequence becomes '?'; message, node_id, stderr_tail and the verdict's texts
// are cut to their limits.
void TidyCause(proto::FailureCause& cause);

// Cuts to the limit and makes it valid UTF-8, as above.
void TidyText(std::string& text, size_t max_bytes);

// A cause that is no worker's: a node was lost, the rendezvous decided.
proto::FailureCause NodeCause(const std::string& node_id, std::string message, absl::Time now);

}  // namespace composer
