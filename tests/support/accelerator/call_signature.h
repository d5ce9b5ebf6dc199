// What decides the shapes of an operator's results: a key of its arguments without the values of numbers, by which the
// results' shapes of an earlier call are known before this one has run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>
#include <string>
#include <vector>

namespace composer::mock {

std::string SignatureOf(const c10::OperatorHandle& op, const torch::jit::Stack& arguments);

struct ResultShape {
  bool defined = false;
  std::vector<int64_t> sizes, strides;
  at::ScalarType dtype = at::kFloat;
  bool operator==(const ResultShape&) const = default;
};
ResultShape ShapeOf(const at::Tensor& tensor);

// The tensors of a call's results in order, and of its out arguments, which a kernel may have resized.
struct CallShapes {
  std::vector<ResultShape> results;
};
// Thread-safe.
std::optional<CallShapes> KnownShapes(const std::string& signature);
void LearnShapes(const std::string& signature, CallShapes shapes);

// Results whose shape depends on values, or that are numbers: the host must wait for them.
bool WaitsForValues(const c10::OperatorHandle& op, const torch::jit::Stack& arguments);

}  // namespace composer::mock
