// Replaces `${…}` in values:
//   ${variables.x}            another value of the document, by dotted path; alone in a value it may be a map or a list
//   ${x}                      the same: what is not found from the top is looked for in `variables`
//   ${oc.env:VAR}             the environment; an error when it is not set. ${env:VAR} is the same.
//   ${oc.env:VAR,default}     with a default, which may hold `${…}` itself
//   \${                       a plain `${`
// A value from the environment counts as unquoted, so `nproc: ${env:N}` is a number, and it may be a secret:
// ConfigNode::written keeps the text that names it, also for values that refer to it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "base/env.h"
#include "config/node.h"

namespace composer {

// Replaces every reference. kInvalidArgument lists all that could not be replaced: unknown path, cycle, variable not
// set, missing brace. Bounded: at most 10,000 replacements, 64 KiB per value.
absl::Status Interpolate(const Environment& env, ConfigNode& root);

}  // namespace composer
