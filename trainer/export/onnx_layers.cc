// SPDX-License-Identifier: Apache-2.0
#include <torch/types.h>

#include <cmath>

#include "trainer/export/onnx_operators.h"

namespace composer {
namespace {

using Node = torch::jit::Node;
using To = OnnxConverter;

void MatMul(To& to, const Node* node) {
  Give(to, node, to.graph().Node("MatMul", {to.Input(node, 0), to.Weight(node, 1, -1)}));
}
void Linear(To& to, const Node* node) {
  std::string y = to.graph().Node("MatMul", {to.Input(node, 0), Turned(to, to.Weight(node, 1, 0), 2, 0, 1)});
  if (!to.IsNone(node, 2)) y = to.graph().Node("Add", {y, to.Input(node, 2)});
  Give(to, node, y);
}
void AddMatMul(To& to, const Node* node) {
  if (to.Double(node, 3) != 1 || to.Double(node, 4) != 1) to.Refuse(node, " with factors");
  Give(to, node,
       to.graph().Node("Add",
                       {to.graph().Node("MatMul", {to.Input(node, 1), to.Weight(node, 2, -1)}), to.Input(node, 0)}));
}
void Embedding(To& to, const Node* node) { Give(to, node, to.Rows(node, 0, to.Input(node, 1))); }

std::vector<int64_t> Twice(const std::vector<int64_t>& once) {
  std::vector<int64_t> twice = once;
  twice.insert(twice.end(), once.begin(), once.end());
  return twice;
}
// What conv2d becomes: transposed at 6, output_padding at 7, groups at 8.
void Convolution(To& to, const Node* node) {
  if (to.Bool(node, 6)) to.Refuse(node, ", transposed");
  std::vector<std::string> inputs = {to.Input(node, 0), to.Weight(node, 1, 0)};
  if (!to.IsNone(node, 2)) inputs.push_back(to.Input(node, 2));
  Give(to, node,
       to.graph().Node("Conv", inputs,
                       {{"strides", to.Ints(node, 3)},
                        {"pads", Twice(to.Ints(node, 4))},
                        {"dilations", to.Ints(node, 5)},
                        {"group", to.Int(node, 8)}}));
}
void BatchNorm(To& to, const Node* node) {
  if (to.Bool(node, 5) || to.IsNone(node, 1)) to.Refuse(node, " in training, or without weights");
  std::vector<std::string> inputs;
  for (size_t i = 0; i < 5; ++i) inputs.push_back(to.Input(node, i));
  Give(to, node, to.graph().Node("BatchNormalization", inputs, {{"epsilon", static_cast<float>(to.Double(node, 7))}}));
}
void LayerNorm(To& to, const Node* node) {
  const std::vector<int64_t> shape = to.Ints(node, 1);
  std::vector<std::string> inputs = {to.Input(node, 0), to.Input(node, 2)};
  if (inputs[1].empty()) inputs[1] = to.graph().Constant(torch::ones(shape, TypeOf(node)));
  if (!to.IsNone(node, 3)) inputs.push_back(to.Input(node, 3));
  Give(to, node,
       to.graph().Node(
           "LayerNormalization", inputs,
           {{"axis", -static_cast<int64_t>(shape.size())}, {"epsilon", static_cast<float>(to.Double(node, 4))}}));
}
void MaxPool2d(To& to, const Node* node) {
  std::vector<int64_t> strides = to.Ints(node, 2);
  if (strides.empty()) strides = to.Ints(node, 1);
  Give(to, node,
       to.graph().Node("MaxPool", {to.Input(node, 0)},
                       {{"kernel_shape", to.Ints(node, 1)},
                        {"strides", strides},
                        {"pads", Twice(to.Ints(node, 3))},
                        {"dilations", to.Ints(node, 4)},
                        {"ceil_mode", int64_t{to.Bool(node, 5)}}}));
}
// Only over windows of one size.
void AdaptiveAveragePool2d(To& to, const Node* node) {
  const std::vector<int64_t> in = To::Sizes(node->input(0)), out = to.Ints(node, 1);
  const int64_t height = in.at(in.size() - 2), width = in.back();
  if (out.size() != 2 || height % out[0] != 0 || width % out[1] != 0) to.Refuse(node, " over unequal windows");
  const std::vector<int64_t> window = {height / out[0], width / out[1]};
  Give(to, node, to.graph().Node("AveragePool", {to.Input(node, 0)}, {{"kernel_shape", window}, {"strides", window}}));
}

// softmax(q k^T scale + mask) v
void Attention(To& to, const Node* node) {
  const std::vector<int64_t> q = To::Sizes(node->input(0)), k = To::Sizes(node->input(1));
  const at::ScalarType type = TypeOf(node);
  const auto rank = static_cast<int64_t>(q.size());
  if (to.Double(node, 4) != 0) to.Refuse(node, " with dropout");
  if (rank == 4 && q[1] != k[1]) to.Refuse(node, " with shared keys");
  const double scale = to.IsNone(node, 6) ? 1 / std::sqrt(static_cast<double>(q.back())) : to.Double(node, 6);
  std::string x = to.graph().Node("MatMul", {to.Input(node, 0), Turned(to, to.Input(node, 1), rank, -2, -1)});
  x = to.graph().Node("Mul", {x, to.graph().Constant(torch::scalar_tensor(scale, type))});
  const std::string hidden = to.graph().Constant(torch::scalar_tensor(-INFINITY, type));
  if (to.Bool(node, 5)) {
    const at::Tensor visible = torch::ones({q[q.size() - 2], k[k.size() - 2]}, at::kBool).tril();
    x = to.graph().Node("Where", {to.graph().Constant(visible), x, hidden});
  }
  if (!to.IsNone(node, 3)) {
    const bool is_bool = To::Type(node->input(3)) == at::kBool;
    x = is_bool ? to.graph().Node("Where", {to.Input(node, 3), x, hidden})
                : to.graph().Node("Add", {x, to.InputAs(node, 3, type)});
  }
  x = to.graph().Node("Softmax", {x}, {{"axis", int64_t{-1}}});
  Give(to, node, to.graph().Node("MatMul", {x, to.Input(node, 2)}));
}
void Dropout(To& to, const Node* node) {
  if (to.Bool(node, 2)) to.Refuse(node, " in training");
  Give(to, node, to.Input(node, 0));
}

}  // namespace

const OnnxTranslations& OnnxLayers() {
  static const auto& table = *new OnnxTranslations{
      {"aten::matmul", MatMul},
      {"aten::bmm", MatMul},
      {"aten::mm", MatMul},
      {"aten::linear", Linear},
      {"aten::addmm", AddMatMul},
      {"aten::embedding", Embedding},
      {"aten::_convolution", Convolution},
      {"aten::convolution", Convolution},
      {"aten::batch_norm", BatchNorm},
      {"aten::layer_norm", LayerNorm},
      {"aten::max_pool2d", MaxPool2d},
      {"aten::adaptive_avg_pool2d", AdaptiveAveragePool2d},
      {"aten::dropout", Dropout},
      {"aten::scaled_dot_product_attention", Attention},
  };
  return table;
}

OnnxTranslation FindOnnxTranslation(const std::string& op) {
  for (const OnnxTranslations* table : {&OnnxArithmetic(), &OnnxShapes(), &OnnxLayers()}) {
    if (const auto found = table->find(op); found != table->end()) return found->second;
  }
  return nullptr;
}

}  // namespace composer
