// SPDX-License-Identifier: Apache-2.0
#include "trainer/export/onnx_converter.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/types.h>

#include "absl/strings/str_cat.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

[[noreturn]] void SamplesBuiltIn(const std::string& where) {
  throw StatusError(absl::FailedPreconditionError(
      absl::StrCat("ONNX: what the model computes depends on the number of samples (at ", where, ")")));
}

}  // namespace

OnnxConverter::OnnxConverter(const TracedModel& traced, const TracedModel& other, bool int8_weights)
    : traced_(traced), int8_weights_(int8_weights) {
  const auto inputs = traced.graph->inputs(), others = other.graph->inputs();
  for (size_t i = 0; i < inputs.size(); ++i) twins_[inputs[i]] = others[i];
  auto a = traced.graph->nodes().begin(), b = other.graph->nodes().begin();
  const auto a_end = traced.graph->nodes().end(), b_end = other.graph->nodes().end();
  for (; a != a_end && b != b_end; ++a, ++b) Pair(*a, *b);
  if (a != a_end || b != b_end) SamplesBuiltIn("its end");
  example_samples_ = Sizes(inputs[0]).at(0);
}

void OnnxConverter::Pair(const Node* node, const Node* other) {
  if (node->kind() != other->kind() || node->outputs().size() != other->outputs().size())
    SamplesBuiltIn(node->kind().toQualString());
  for (size_t i = 0; i < node->outputs().size(); ++i) twins_[node->outputs()[i]] = other->outputs()[i];
}

void OnnxConverter::Refuse(const Node* node, const std::string& why) const {
  throw StatusError(absl::UnimplementedError(absl::StrCat("ONNX: the model calls ", node->kind().toQualString(), why)));
}

std::vector<int64_t> OnnxConverter::Sizes(const Value* value) {
  const auto type = value->type()->cast<c10::TensorType>();
  const auto sizes = type == nullptr ? std::nullopt : type->sizes().concrete_sizes();
  TORCH_CHECK(sizes.has_value(), "a traced value has no sizes: ", value->debugName());
  return *sizes;
}

at::ScalarType OnnxConverter::Type(const Value* value) {
  const auto type = value->type()->cast<c10::TensorType>();
  TORCH_CHECK(type != nullptr && type->scalarType(), "a traced value has no dtype: ", value->debugName());
  return *type->scalarType();
}

std::vector<int64_t> OnnxConverter::OpenSizes(const Value* value) const {
  std::vector<int64_t> sizes = Sizes(value);
  const std::vector<int64_t> other = Sizes(twins_.at(value));
  if (sizes.size() != other.size()) SamplesBuiltIn(value->node()->kind().toQualString());
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != other[i]) sizes[i] = -1;
  }
  return sizes;
}

std::string OnnxConverter::ShapeOf(const Value* value) {
  const std::vector<int64_t> sizes = Sizes(value), open = OpenSizes(value);
  std::vector<std::string> parts;
  bool depends = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (open[i] >= 0) {
      parts.push_back(graph_.Ints({sizes[i]}));
      continue;
    }
    depends = true;
    if (sizes[i] % example_samples_ != 0) SamplesBuiltIn(value->node()->kind().toQualString());
    const int64_t times = sizes[i] / example_samples_;
    parts.push_back(times == 1 ? samples_ : graph_.Node("Mul", {samples_, graph_.Ints({times})}));
  }
  if (!depends) return graph_.Ints(sizes);
  return graph_.Node("Concat", parts, {{"axis", int64_t{0}}});
}

c10::IValue OnnxConverter::Constant(const Value* value) const {
  const auto found = torch::jit::toIValue(value), other = torch::jit::toIValue(twins_.at(value));
  if (!found.has_value() || !other.has_value()) Refuse(value->node(), " with an argument that is computed");
  if (!found->isTensor() && *found != *other) SamplesBuiltIn("a constant");
  if (found->isTensor() && !found->toTensor().equal(other->toTensor())) SamplesBuiltIn("a constant");
  return *found;
}

std::string OnnxConverter::Name(const Value* value) {
  const auto known = names_.find(value);
  if (known != names_.end()) return known->second;
  if (value->node()->kind() != c10::prim::Constant) Refuse(value->node(), "");
  const at::Tensor tensor = Constant(value).toTensor();
  const auto param = traced_.names.find(tensor.const_data_ptr());
  std::string& name = constants_[tensor.numel() == 0 ? nullptr : tensor.const_data_ptr()];
  const bool whole = param != traced_.names.end() && name.empty();
  name = graph_.Constant(tensor, whole ? param->second : "");
  Set(value, name);
  return name;
}

bool OnnxConverter::IsNone(const Node* node, size_t index) const {
  return node->input(index)->type()->kind() == c10::TypeKind::NoneType;
}
bool OnnxConverter::IsTensor(const Node* node, size_t index) const {
  return node->input(index)->type()->cast<c10::TensorType>() != nullptr;
}
std::string OnnxConverter::Input(const Node* node, size_t index) {
  return IsNone(node, index) ? "" : Name(node->input(index));
}
std::string OnnxConverter::Cast(const std::string& value, at::ScalarType from, at::ScalarType to) {
  return from == to ? value : graph_.Node("Cast", {value}, {{"to", OnnxType(to)}});
}
std::string OnnxConverter::InputAs(const Node* node, size_t index, at::ScalarType type) {
  const Value* const value = node->input(index);
  if (IsTensor(node, index)) return Cast(Name(value), Type(value), type);
  return graph_.Constant(torch::scalar_tensor(Constant(value).toScalar(), type));
}
int64_t OnnxConverter::Int(const Node* node, size_t index) const { return Constant(node->input(index)).toInt(); }
double OnnxConverter::Double(const Node* node, size_t index) const {
  return Constant(node->input(index)).toScalar().toDouble();
}
bool OnnxConverter::Bool(const Node* node, size_t index) const { return Constant(node->input(index)).toBool(); }
std::string OnnxConverter::Text(const Node* node, size_t index) const {
  return Constant(node->input(index)).toStringRef();
}

std::vector<int64_t> OnnxConverter::Ints(const Node* node, size_t index) const {
  const Value* const value = node->input(index);
  std::vector<int64_t> ints;
  if (value->node()->kind() == c10::prim::ListConstruct) {
    for (const Value* each : value->node()->inputs()) ints.push_back(Constant(each).toInt());
    return ints;
  }
  const c10::IValue constant = Constant(value);
  if (constant.isInt()) return {constant.toInt()};
  return constant.toIntVector();
}

std::vector<const torch::jit::Value*> OnnxConverter::Tensors(const Node* node, size_t index) const {
  const Node* const list = node->input(index)->node();
  if (list->kind() != c10::prim::ListConstruct) Refuse(node, " with a list that is computed");
  return {list->inputs().begin(), list->inputs().end()};
}

std::vector<const torch::jit::Value*> OnnxConverter::Unpacked(const Node* node) const {
  const auto& uses = node->output()->uses();
  if (uses.size() != 1 || uses[0].user->kind() != c10::prim::ListUnpack) Refuse(node, " whose list is passed on");
  const auto outputs = uses[0].user->outputs();
  return {outputs.begin(), outputs.end()};
}

void OnnxConverter::Run() {
  const auto inputs = traced_.graph->inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    graph_.Input(traced_.inputs[i], Type(inputs[i]), OpenSizes(inputs[i]));
    Set(inputs[i], traced_.inputs[i]);
  }
  samples_ = graph_.Node("Shape", {traced_.inputs[0]}, {{"start", int64_t{0}}, {"end", int64_t{1}}});
  for (const Node* node : traced_.graph->nodes()) {
    const auto kind = node->kind();
    if (kind == c10::prim::Constant || kind == c10::prim::ListConstruct || kind == c10::prim::ListUnpack) continue;
    const OnnxTranslation translate = FindOnnxTranslation(kind.toQualString());
    if (translate == nullptr) Refuse(node, ", which has no translation");
    translate(*this, node);
  }
  const auto outputs = traced_.graph->outputs();
  for (size_t i = 0; i < outputs.size(); ++i)
    graph_.Output(Name(outputs[i]), traced_.outputs.at(i), Type(outputs[i]), OpenSizes(outputs[i]));
}

}  // namespace composer
