// Everything a program or a plugin needs of Composer. Code that writes modules of its own includes <torch/torch.h> too.
// Guide: docs/api.md; plugins: docs/plugins.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <composer/version.h>

#include "trainer/optim/param_groups.h"
#include "trainer/trainer.h"
#include "worker/plugin.h"
