// Several ranks: InitFromEnvironment for programs of one's own, communicators, and how a model is spread over them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/collectives/c10d_communicator.h"
#include "trainer/collectives/init_from_environment.h"
#include "trainer/collectives/mesh.h"
#include "trainer/collectives/object_collectives.h"
#include "trainer/core/communicator.h"
#include "trainer/core/model_sharding.h"
#include "trainer/options/activation_options.h"
#include "trainer/options/ddp_options.h"
#include "trainer/options/fsdp_options.h"
