// Int8 weights of OnnxConverter.
// SPDX-License-Identifier: Apache-2.0
#include <torch/types.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainer/export/onnx_converter.h"
#include "trainer/export/onnx_operators.h"

namespace composer {
namespace {

constexpr int64_t kFewNumbers = 1024;  // below, a weight stays as it is

}  // namespace

std::optional<OnnxConverter::Int8Weight> OnnxConverter::Quantize(const Node* node, size_t index, int64_t axis) {
  const Value* const value = node->input(index);
  if (!int8_weights_ || value->node()->kind() != c10::prim::Constant) return std::nullopt;
  const at::Tensor weight = Constant(value).toTensor();
  if (traced_.names.count(weight.const_data_ptr()) == 0 || weight.scalar_type() != at::kFloat || weight.dim() < 2 ||
      weight.numel() < kFewNumbers)
    return std::nullopt;
  // Views of a parameter may begin where it does.
  const std::string key = absl::StrCat(reinterpret_cast<uintptr_t>(weight.const_data_ptr()), " ", axis, " ",
                                       absl::StrJoin(weight.sizes(), ","), " ", absl::StrJoin(weight.strides(), ","));
  Int8Weight& made = quantized_[key];
  if (!made.numbers.empty()) return made;
  std::vector<int64_t> others;
  for (int64_t i = 0; i < weight.dim(); ++i) {
    if (i != axis) others.push_back(i);
  }
  const at::Tensor largest = weight.abs().amax(others, /*keepdim=*/true);
  const at::Tensor scales = torch::where(largest > 0, largest / 127, torch::ones_like(largest));
  std::string& known = constants_[weight.const_data_ptr()];
  const std::string name = known.empty() ? traced_.names.at(weight.const_data_ptr()) : "";
  made.numbers = graph_.Constant((weight / scales).round().clamp(-127, 127).to(at::kChar), name);
  made.scales = graph_.Constant(scales.flatten(), made.numbers + ".scale");
  if (known.empty()) known = made.numbers;
  return made;
}

std::string OnnxConverter::Weight(const Node* node, size_t index, int64_t axis) {
  if (!IsTensor(node, index)) return Input(node, index);
  axis = PositiveDim(axis, static_cast<int64_t>(Sizes(node->input(index)).size()));
  const std::optional<Int8Weight> made = Quantize(node, index, axis);
  if (!made) return Input(node, index);
  return graph_.Node("DequantizeLinear", {made->numbers, made->scales}, {{"axis", axis}});
}

std::string OnnxConverter::Rows(const Node* node, size_t index, const std::string& rows) {
  const std::optional<Int8Weight> made = Quantize(node, index, 0);
  if (!made) return graph_.Node("Gather", {Input(node, index), rows}, {{"axis", int64_t{0}}});
  // Only the rows that are read become float32.
  const std::string numbers = graph_.Node("Gather", {made->numbers, rows}, {{"axis", int64_t{0}}});
  const std::string scales = graph_.Node("Gather", {made->scales, rows}, {{"axis", int64_t{0}}});
  const std::string columns = graph_.Node("Unsqueeze", {scales, graph_.Ints({-1})});
  return graph_.Node("Mul", {Cast(numbers, at::kChar, at::kFloat), columns});
}

}  // namespace composer
