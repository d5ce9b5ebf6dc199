// Provides runs with EMA, and reads what their checkpoints hold.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "tests/trainer/loop/small_run.h"
#include "trainer/algorithms/ema.h"

namespace composer {

inline Ema& AddEma(TrainerOptions& options, const EmaArguments& arguments) {
  auto ema = std::make_unique<Ema>(ResolveEma(arguments).value());
  Ema& added = *ema;
  options.algorithms.push_back(std::move(ema));
  return added;
}

inline EmaArguments HalfLife(const Time& time) {
  EmaArguments arguments;
  arguments.half_life = time;
  return arguments;
}

using Tensors = std::map<std::string, at::Tensor>;

// Returns the tensors of a folder's newest checkpoint.
inline Tensors NewestTensors(const std::string& folder) {
  Tensors result;
  for (auto& [name, tensor] : NewestCheckpoint(folder).tensors) result.emplace(name, tensor);
  return result;
}

// Returns the tensors below a prefix, without it.
inline Tensors Below(const Tensors& tensors, const std::string& prefix) {
  Tensors result;
  for (const auto& [name, tensor] : tensors) {
    if (name.rfind(prefix, 0) == 0) result.emplace(name.substr(prefix.size()), tensor);
  }
  return result;
}

inline Tensors AsMap(const RunResult& result) { return {result.tensors.begin(), result.tensors.end()}; }

inline bool SameBits(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size() || a.empty()) return false;
  for (const auto& [name, tensor] : a) {
    const auto other = b.find(name);
    if (other == b.end() || !tensor.equal(other->second)) return false;
  }
  return true;
}

}  // namespace composer
