// Translates the operators of a traced model into those of ONNX, one at a time (onnx_operators.h has the tables).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trainer/export/onnx_file.h"
#include "trainer/export/traced_model.h"

namespace composer {

class OnnxConverter {
 public:
  using Node = torch::jit::Node;
  using Value = torch::jit::Value;

  // `other` is the same model traced with another number of samples. Throws StatusError when the two differ in more
  // than sizes. Both must outlive the converter.
  OnnxConverter(const TracedModel& traced, const TracedModel& other, bool int8_weights);

  // Translates the whole graph. Throws StatusError with kUnimplemented for an operator without a translation.
  void Run();
  OnnxGraph& graph() { return graph_; }

  // What the translation of an operator needs of its node.
  std::string Input(const Node* node, size_t index);  // a tensor; "" for None
  // A parameter that is read as a weight, of which dimension `axis` are the outputs; as Input, but for int8 weights.
  std::string Weight(const Node* node, size_t index, int64_t axis);
  // The rows of a table of weights that the values of `rows` name.
  std::string Rows(const Node* node, size_t index, const std::string& rows);
  std::string InputAs(const Node* node, size_t index, at::ScalarType type);  // a tensor or number, as a tensor
  std::string Cast(const std::string& value, at::ScalarType from, at::ScalarType to);
  bool IsNone(const Node* node, size_t index) const;
  bool IsTensor(const Node* node, size_t index) const;
  int64_t Int(const Node* node, size_t index) const;
  double Double(const Node* node, size_t index) const;
  bool Bool(const Node* node, size_t index) const;
  std::string Text(const Node* node, size_t index) const;
  std::vector<int64_t> Ints(const Node* node, size_t index) const;
  std::vector<const Value*> Tensors(const Node* node, size_t index) const;
  std::string Name(const Value* value);
  static std::vector<int64_t> Sizes(const Value* value);
  static at::ScalarType Type(const Value* value);
  // The sizes as a tensor of ONNX, in which those that grow with the number of samples are computed.
  std::string ShapeOf(const Value* value);
  void Set(const Value* value, const std::string& name) { names_[value] = name; }
  // Names the outputs of an operator that returns a list.
  std::vector<const Value*> Unpacked(const Node* node) const;
  [[noreturn]] void Refuse(const Node* node, const std::string& why) const;

 private:
  c10::IValue Constant(const Value* value) const;
  void Pair(const Node* node, const Node* other);
  // Int8 numbers and scales, as names of constants; none for what stays as it is.
  struct Int8Weight {
    std::string numbers, scales;
  };
  std::optional<Int8Weight> Quantize(const Node* node, size_t index, int64_t axis);
  std::vector<int64_t> OpenSizes(const Value* value) const;  // -1 where they depend on the number of samples

  const TracedModel& traced_;
  OnnxGraph graph_;
  std::unordered_map<const Value*, const Value*> twins_;
  std::unordered_map<const Value*, std::string> names_;
  std::map<const void*, std::string> constants_;  // by the address of their data
  const bool int8_weights_;
  std::map<std::string, Int8Weight> quantized_;  // by address, axis, sizes and strides
  std::string samples_;                          // ONNX's value of their number
  int64_t example_samples_ = 0;
};

using OnnxTranslation = void (*)(OnnxConverter& to, const torch::jit::Node* node);
// Returns the translation of an operator such as "aten::linear", or null.
OnnxTranslation FindOnnxTranslation(const std::string& op);

}  // namespace composer
