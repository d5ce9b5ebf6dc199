// Abandon keeps a value for ever, because a collective that no peer answers may still use it, or because its destructor
// would wait for the peers. The values stay reachable, so that a leak checker does not take them for forgotten ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <any>
#include <mutex>
#include <utility>
#include <vector>

namespace composer {

template <typename Value>
void Abandon(Value value) {
  static std::mutex& mutex = *new std::mutex;
  static std::vector<std::any>& kept = *new std::vector<std::any>;
  const std::lock_guard<std::mutex> lock(mutex);
  kept.emplace_back(std::move(value));
}

}  // namespace composer
