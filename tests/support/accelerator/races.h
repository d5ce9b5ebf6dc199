// Who used which bytes, and whether the next user may know that they are finished: two operations on the same bytes, of
// which one writes, must be ordered by a stream, an event or a host wait. Decided when an operation is launched, so the
// same program gives the same faults in every run. Callers hold the machine's lock.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/support/accelerator/clock.h"

namespace composer::mock {

struct Access {
  uintptr_t begin = 0, end = 0;
  bool writes = false;
};

class Races {
 public:
  void Born(uintptr_t begin, size_t bytes);
  // Forgets a block and its users.
  void Died(uintptr_t begin);
  // Records a use; returns a message if another stream's use of these bytes is not known to `clock`, else "".
  std::string Use(const Access& access, const Epoch& epoch, const Clock& clock, const std::string& operation);

  struct Past {
    Access access;
    Epoch epoch;
    std::string operation;
  };
  // The recorded uses of the block that begins here.
  std::vector<Past> Users(uintptr_t begin) const;
  // Which allocation this address is in, from 1; 0: none.
  uint64_t AllocationOf(uintptr_t address) const;

 private:
  struct Block {
    size_t bytes = 0;
    std::vector<Past> past;
    uint64_t allocation = 0;
  };
  uint64_t allocations_ = 0;
  std::map<uintptr_t, Block> blocks_;  // by address
};

}  // namespace composer::mock
