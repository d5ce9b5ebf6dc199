// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/scheduler.h"

namespace composer {

Timestamp StartOfEpoch(const Timestamp& now) {
  Timestamp start = now;
  start.batch -= now.batch_in_epoch;
  start.sample -= now.sample_in_epoch;
  start.token -= now.token_in_epoch;
  start.batch_in_epoch = start.sample_in_epoch = start.token_in_epoch = 0;
  return start;
}

}  // namespace composer
