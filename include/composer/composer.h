// Everything that a program or a plugin needs of Composer. Code that defines its own modules also includes
// <torch/torch.h>.
// Each of the headers below can be included by itself. Guide: docs/api.md; plugins: docs/plugins.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <composer/algorithms.h>
#include <composer/callbacks.h>
#include <composer/core.h>
#include <composer/data.h>
#include <composer/functional.h>
#include <composer/loggers.h>
#include <composer/metrics.h>
#include <composer/models.h>
#include <composer/optim.h>
#include <composer/parallel.h>
#include <composer/plugin.h>
#include <composer/tokenizers.h>
#include <composer/version.h>
