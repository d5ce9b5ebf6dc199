// Whether a run uses our own kernels (trainer/kernels/operators.h), and why not.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace composer {

// What a job's `kernels` says: auto takes them where they are, off never does.
enum class KernelsKey { kAuto, kOff };

struct KernelChoice {
  bool use = false;
  std::string reason;  // for people, one sentence
};

// Pure. capability: the GPU's, 90 for 9.0. The kernels are compiled for 8.0, 9.0 and 10.0, and the driver makes those
// of 8.0 into what any later one needs.
KernelChoice ChooseKernels(KernelsKey key, int capability);

}  // namespace composer
