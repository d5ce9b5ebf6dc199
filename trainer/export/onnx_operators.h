// What translations of operators share, and the tables of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trainer/export/onnx_converter.h"

namespace composer {

using OnnxTranslations = std::map<std::string, OnnxTranslation>;
const OnnxTranslations& OnnxArithmetic();
const OnnxTranslations& OnnxShapes();
const OnnxTranslations& OnnxLayers();

inline int64_t PositiveDim(int64_t dim, int64_t rank) { return dim < 0 ? dim + rank : dim; }

// Exchanges two dimensions of a value.
inline std::string Turned(OnnxConverter& to, const std::string& x, int64_t rank, int64_t a, int64_t b) {
  std::vector<int64_t> order(static_cast<size_t>(rank));
  for (int64_t i = 0; i < rank; ++i) order[static_cast<size_t>(i)] = i;
  std::swap(order[static_cast<size_t>(PositiveDim(a, rank))], order[static_cast<size_t>(PositiveDim(b, rank))]);
  return to.graph().Node("Transpose", {x}, {{"perm", order}});
}

inline void Give(OnnxConverter& to, const torch::jit::Node* node, const std::string& value) {
  to.Set(node->output(), value);
}
inline at::ScalarType TypeOf(const torch::jit::Node* node) { return OnnxConverter::Type(node->output()); }
inline int64_t RankOf(const torch::jit::Node* node) {
  return static_cast<int64_t>(OnnxConverter::Sizes(node->input(0)).size());
}

}  // namespace composer
