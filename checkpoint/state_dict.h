// What a checkpoint holds, in memory: named tensors and small state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace composer {

struct StateDict {
  // Names are unique, valid UTF-8, 1 to 1024 bytes. Dense, on any device, any strides. Every rank has the same list of
  // tensors (replicated state); their values are taken to be the same on all ranks too.
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  // Key -> JSON text (any JSON value, up to 60 levels deep). Comes back in canonical form: keys sorted, no spaces.
  // Keys that only some ranks have are united (a rank's own RNG, say); of a key that several have, the lowest rank's
  // value is kept.
  std::map<std::string, std::string> small;
};

}  // namespace composer
