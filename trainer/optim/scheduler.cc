// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/scheduler.h"

namespace composer {

Timestamp LaggedTimestamp(const Timestamp& now, int64_t samples, int64_t tokens) {
  Timestamp asked = now;
  if (now.batch == 0) return asked;
  asked.batch -= 1;
  asked.sample -= samples;
  asked.token -= tokens;
  return asked;
}

Timestamp StartOfEpoch(const Timestamp& now) {
  Timestamp start = now;
  start.batch -= now.batch_in_epoch;
  start.sample -= now.sample_in_epoch;
  start.token -= now.token_in_epoch;
  start.batch_in_epoch = start.sample_in_epoch = start.token_in_epoch = 0;
  return start;
}

}  // namespace composer
