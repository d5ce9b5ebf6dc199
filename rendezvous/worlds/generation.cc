// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/worlds/generation.h"

namespace composer {
namespace {

constexpr uint64_t kRange = 1'000'000;

}  // namespace

uint64_t NextGeneration(uint64_t last, bool own, const Numbering& numbering) {
  if (own || (last == 0 && numbering.may_be_first)) return last + 1;
  return (last / kRange + 1) * kRange + numbering.random % kRange;
}

}  // namespace composer
