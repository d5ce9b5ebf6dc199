// The trainer, its options and state, events, callbacks and algorithms as interfaces, time and outputs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/time.h"
#include "base/time_arithmetic.h"
#include "trainer/core/block.h"
#include "trainer/core/callback.h"
#include "trainer/core/event.h"
#include "trainer/core/outputs.h"
#include "trainer/core/state.h"
#include "trainer/core/torch_status.h"
#include "trainer/loop/generate_loop.h"
#include "trainer/options/trainer_options.h"
#include "trainer/trainer.h"
