// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/operator_work.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"

namespace composer {
namespace {

using Values = c10::ArrayRef<const c10::IValue>;

// An expanded tensor has fewer bytes than elements.
double BytesOf(const at::Tensor& tensor) {
  if (!tensor.defined()) return 0;
  const double dense = static_cast<double>(tensor.numel()) * static_cast<double>(tensor.element_size());
  return tensor.has_storage() ? std::min(dense, static_cast<double>(tensor.storage().nbytes())) : dense;
}

double BytesOf(const c10::IValue& value) {
  if (value.isTensor()) return BytesOf(value.toTensor());
  if (!value.isTensorList()) return 0;
  double bytes = 0;
  for (const at::Tensor& tensor : value.toTensorVector()) bytes += BytesOf(tensor);
  return bytes;
}

double Numel(const c10::IValue& value) { return static_cast<double>(value.toTensor().numel()); }

// [.., m, k] times [.., k, n].
double Product(Values values, size_t a, size_t b) {
  return 2 * Numel(values[a]) * static_cast<double>(values[b].toTensor().size(-1));
}

// The heads' two products, q k' and p v; half of each if a token sees only earlier ones.
double Attention(Values values, size_t q, bool causal) {
  const at::Tensor& key = values[q + 1].toTensor();
  return 4 * Numel(values[q]) * static_cast<double>(key.size(-2)) * (causal ? 0.5 : 1);
}

// Multiply-adds of an output (or a transposed convolution's input) of `elements`: each a product with one filter.
double Convolution(double elements, const at::Tensor& weight) {
  return 2 * elements * static_cast<double>(weight.numel()) / static_cast<double>(std::max<int64_t>(1, weight.size(0)));
}

double ConvolutionForward(Values values) {
  const at::Tensor& input = values[0].toTensor();
  const at::Tensor& weight = values[1].toTensor();
  if (values[6].toBool()) return Convolution(static_cast<double>(input.numel()), weight);
  double places = static_cast<double>(input.size(0)) * static_cast<double>(weight.size(0));
  const auto stride = values[3].toIntVector(), padding = values[4].toIntVector(), dilation = values[5].toIntVector();
  for (int64_t d = 2; d < input.dim(); ++d) {
    const auto at = [&](const std::vector<int64_t>& list) {
      return list[list.size() == 1 ? 0 : static_cast<size_t>(d - 2)];
    };
    const int64_t reach = at(dilation) * (weight.size(d) - 1) + 1;
    places *= static_cast<double>((input.size(d) + 2 * at(padding) - reach) / at(stride) + 1);
  }
  return Convolution(places, weight);
}

double ConvolutionBackward(Values values) {
  const bool transposed = values[7].toBool();
  const auto mask = values[10].toBoolList();
  const double one = Convolution(Numel(values[transposed ? 1 : 0]), values[2].toTensor());
  return one * ((mask[0] ? 1 : 0) + (mask[1] ? 1 : 0));
}

using Count = double (*)(Values);
const absl::flat_hash_map<std::string, std::pair<size_t, Count>>&
Products() {  // the factor that has the type, the count
  static const auto* const kProducts = new absl::flat_hash_map<std::string, std::pair<size_t, Count>>{
      {"aten::mm", {0, [](Values v) { return Product(v, 0, 1); }}},
      {"aten::bmm", {0, [](Values v) { return Product(v, 0, 1); }}},
      {"aten::addmm", {1, [](Values v) { return Product(v, 1, 2); }}},
      {"aten::baddbmm", {1, [](Values v) { return Product(v, 1, 2); }}},
      {"aten::_scaled_dot_product_flash_attention_for_cpu",
       {0, [](Values v) { return Attention(v, 0, v[4].toBool()); }}},
      // It computes q k' once more, and four gradients.
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
       {1, [](Values v) { return 2.5 * Attention(v, 1, v[7].toBool()); }}},
      {"aten::convolution", {0, ConvolutionForward}},
      {"aten::convolution_backward", {0, ConvolutionBackward}}};
  return *kProducts;
}

// These return rows of their first argument and read no others of it.
bool ReadsRows(const std::string& name) { return name == "aten::embedding" || name == "aten::index_select"; }

bool OnlyWrites(const std::string& name) {
  return absl::EndsWith(name, "copy_") || absl::EndsWith(name, "zero_") || absl::EndsWith(name, "fill_");
}

}  // namespace

OperatorWork WorkOfInputs(const std::string& name, Values inputs, const std::vector<size_t>& changed) {
  OperatorWork work;
  for (size_t i = ReadsRows(name) || OnlyWrites(name) ? 1 : 0; i < inputs.size(); ++i) work.bytes += BytesOf(inputs[i]);
  for (const size_t i : changed) work.changed += BytesOf(inputs[i]);
  const auto product = Products().find(name);
  if (product == Products().end()) return work;
  const auto& [typed, count] = product->second;
  work.flops = count(inputs);
  work.half = c10::isReducedFloatingType(inputs[typed].toTensor().scalar_type());
  return work;
}

void AddWorkOfOutputs(const std::vector<c10::IValue>& outputs, OperatorWork& work) {
  // An operator that changes a tensor returns it; one that changes lists of them returns nothing.
  if (outputs.empty()) work.bytes += work.changed;
  for (const c10::IValue& output : outputs) work.bytes += BytesOf(output);
}

}  // namespace composer
