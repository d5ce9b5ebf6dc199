// What this machine's processor reaches at best, measured: the roof of a roofline (roofline.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace composer {

// Per second, with the threads that LibTorch has on the calling thread.
struct MachinePeaks {
  int threads = 0;
  double fp32_flops = 0;  // of a product of two 1024 x 1024 matrices
  double bf16_flops = 0;  // likewise in bfloat16
  double bytes = 0;       // read and written by c = a + b of 64 MiB each
};

// The best of several tries of each, so that other programs' use of the machine matters little. Takes about half a
// second on one core, and 192 MiB meanwhile.
MachinePeaks MeasureMachinePeaks();

}  // namespace composer
