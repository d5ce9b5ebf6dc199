// A graph of ONNX operators, and the file that holds it.
// Source: github.com/onnx/onnx, onnx/onnx.proto (ModelProto, GraphProto, NodeProto, TensorProto), docs/Operators.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "base/format/proto_writer.h"

namespace composer {

using OnnxAttribute = std::variant<int64_t, float, std::string, std::vector<int64_t>>;
using OnnxAttributes = std::vector<std::pair<std::string, OnnxAttribute>>;

// Returns ONNX's number of a dtype, 0 if it has none.
int64_t OnnxType(at::ScalarType type);

class OnnxGraph {
 public:
  static constexpr int64_t kOpset = 20;

  // Adds a node; an absent input is "". Returns the names of its outputs.
  std::vector<std::string> Nodes(const std::string& op, const std::vector<std::string>& inputs,
                                 const OnnxAttributes& attributes, size_t outputs);
  std::string Node(const std::string& op, const std::vector<std::string>& inputs,
                   const OnnxAttributes& attributes = {}) {
    return Nodes(op, inputs, attributes, 1)[0];
  }
  // Adds a tensor that is part of the file, under a name that is unique; returns the name. Throws c10::ValueError for a
  // dtype that ONNX has not.
  std::string Constant(const at::Tensor& tensor, const std::string& name = "");
  std::string Ints(const std::vector<int64_t>& values);
  // A dimension of -1 is called `batch`.
  void Input(const std::string& name, at::ScalarType type, const std::vector<int64_t>& sizes);
  void Output(const std::string& value, const std::string& name, at::ScalarType type,
              const std::vector<int64_t>& sizes);

  // The file. kResourceExhausted above 2 GB, which protocol buffers cannot hold.
  absl::StatusOr<std::string> File(const std::string& producer) const;

 private:
  ProtoWriter graph_;
  int64_t constant_bytes_ = 0;
  int names_ = 0;
};

}  // namespace composer
