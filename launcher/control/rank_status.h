// One worker as `composer status` shows it. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/time/time.h"
#include "launcher/workers/worker_group.h"
#include "proto/control.pb.h"

namespace composer {

// `page` is the worker's progress page, as read now.
proto::RankStatus DescribeRank(const Worker& worker, const ProgressSnapshot& page, absl::Time now);

}  // namespace composer
