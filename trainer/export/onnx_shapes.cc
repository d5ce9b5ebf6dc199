// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "trainer/export/onnx_operators.h"

namespace composer {
namespace {

using Node = torch::jit::Node;
using To = OnnxConverter;

void Same(To& to, const Node* node) { Give(to, node, to.InputAs(node, 0, TypeOf(node))); }

void Reshape(To& to, const Node* node) {
  Give(to, node, to.graph().Node("Reshape", {to.InputAs(node, 0, TypeOf(node)), to.ShapeOf(node->output())}));
}
void Expand(To& to, const Node* node) {
  Give(to, node, to.graph().Node("Expand", {to.Input(node, 0), to.ShapeOf(node->output())}));
}

void Transpose(To& to, const Node* node) {
  Give(to, node, Turned(to, to.Input(node, 0), RankOf(node), to.Int(node, 1), to.Int(node, 2)));
}
void TransposeMatrix(To& to, const Node* node) {
  Give(to, node, RankOf(node) < 2 ? to.Input(node, 0) : Turned(to, to.Input(node, 0), 2, 0, 1));
}
void Permute(To& to, const Node* node) {
  std::vector<int64_t> order = to.Ints(node, 1);
  for (int64_t& dim : order) dim = PositiveDim(dim, RankOf(node));
  Give(to, node, to.graph().Node("Transpose", {to.Input(node, 0)}, {{"perm", order}}));
}

std::string Sliced(To& to, const std::string& x, int64_t dim, int64_t begin, int64_t end, int64_t step) {
  return to.graph().Node(
      "Slice", {x, to.graph().Ints({begin}), to.graph().Ints({end}), to.graph().Ints({dim}), to.graph().Ints({step})});
}
constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
void Slice(To& to, const Node* node) {
  const int64_t begin = to.IsNone(node, 2) ? 0 : to.Int(node, 2), end = to.IsNone(node, 3) ? kEnd : to.Int(node, 3);
  Give(to, node, Sliced(to, to.Input(node, 0), to.Int(node, 1), begin, end, to.Int(node, 4)));
}
void Narrow(To& to, const Node* node) {
  const int64_t begin = to.Int(node, 2);
  Give(to, node, Sliced(to, to.Input(node, 0), to.Int(node, 1), begin, begin + to.Int(node, 3), 1));
}
void Select(To& to, const Node* node) {
  const int64_t at = to.Int(node, 2);
  const std::string part = Sliced(to, to.Input(node, 0), to.Int(node, 1), at, at == -1 ? kEnd : at + 1, 1);
  Give(to, node, to.graph().Node("Reshape", {part, to.ShapeOf(node->output())}));
}

void SplitInto(To& to, const Node* node, int64_t dim, const std::vector<int64_t>& lengths) {
  const auto parts = to.Unpacked(node);
  const std::vector<std::string> names = to.graph().Nodes("Split", {to.Input(node, 0), to.graph().Ints(lengths)},
                                                          {{"axis", PositiveDim(dim, RankOf(node))}}, parts.size());
  for (size_t i = 0; i < parts.size(); ++i) to.Set(parts[i], names[i]);
}
// chunk(x, count, dim), split(x, size or sizes, dim): the parts' lengths are known.
template <int kDimInput>
void Split(To& to, const Node* node) {
  const int64_t dim = to.Int(node, kDimInput), at = PositiveDim(dim, RankOf(node));
  std::vector<int64_t> lengths;
  for (const auto* const part : to.Unpacked(node)) lengths.push_back(To::Sizes(part).at(static_cast<size_t>(at)));
  SplitInto(to, node, dim, lengths);
}
void Unbind(To& to, const Node* node) {
  const auto parts = to.Unpacked(node);
  SplitInto(to, node, to.Int(node, 1), std::vector<int64_t>(parts.size(), 1));
  for (const auto* const part : parts) to.Set(part, to.graph().Node("Reshape", {to.Name(part), to.ShapeOf(part)}));
}
void Concatenate(To& to, const Node* node) {
  std::vector<std::string> parts;
  for (const auto* const part : to.Tensors(node, 0))
    parts.push_back(to.Cast(to.Name(part), To::Type(part), TypeOf(node)));
  Give(to, node, to.graph().Node("Concat", parts, {{"axis", to.Int(node, 1)}}));
}

}  // namespace

const OnnxTranslations& OnnxShapes() {
  static const auto& table = *new OnnxTranslations{
      {"aten::view", Reshape},         {"aten::reshape", Reshape}, {"aten::flatten", Reshape},
      {"aten::unflatten", Reshape},    {"aten::squeeze", Reshape}, {"aten::unsqueeze", Reshape},
      {"aten::_unsafe_view", Reshape}, {"aten::view_as", Reshape}, {"aten::expand", Expand},
      {"aten::expand_as", Expand},     {"aten::contiguous", Same}, {"aten::to", Same},
      {"aten::type_as", Same},         {"aten::clone", Same},      {"aten::detach", Same},
      {"aten::alias", Same},           {"aten::_to_copy", Same},   {"aten::transpose", Transpose},
      {"aten::t", TransposeMatrix},    {"aten::permute", Permute}, {"aten::slice", Slice},
      {"aten::narrow", Narrow},        {"aten::select", Select},   {"aten::unbind", Unbind},
      {"aten::chunk", Split<2>},       {"aten::split", Split<2>},  {"aten::split_with_sizes", Split<2>},
      {"aten::cat", Concatenate},
  };
  return table;
}

}  // namespace composer
