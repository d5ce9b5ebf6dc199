// What a plugin (a shared library named in a job's YAML) registers its parts with. Guide: docs/plugins.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "job/plugin/plugin.h"
