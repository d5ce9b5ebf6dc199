// SPDX-License-Identifier: Apache-2.0
#include "trainer/export/onnx_file.h"

#include <torch/types.h>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

// ModelProto
constexpr int kIrVersion = 1, kProducer = 2, kProducerVersion = 3, kGraph = 7, kOpsetImport = 8, kOpsetVersion = 2;
constexpr int64_t kIr = 9;
// GraphProto
constexpr int kNode = 1, kGraphName = 2, kInitializer = 5, kInput = 11, kOutput = 12;
// NodeProto
constexpr int kNodeInput = 1, kNodeOutput = 2, kNodeName = 3, kOpType = 4, kAttribute = 5;
// AttributeProto
constexpr int kAttributeName = 1, kFloat = 2, kInt = 3, kString = 4, kInts = 8, kType = 20;
constexpr int64_t kFloatType = 1, kIntType = 2, kStringType = 3, kIntsType = 7;
// TensorProto
constexpr int kDims = 1, kDataType = 2, kTensorName = 8, kRawData = 9;
// ValueInfoProto, TypeProto, TypeProto.Tensor, TensorShapeProto, Dimension
constexpr int kValueName = 1, kValueType = 2, kTensorType = 1, kElemType = 1, kShape = 2, kDim = 1, kDimValue = 1,
              kDimParam = 2;
constexpr int64_t kLargestFile = (int64_t{1} << 31) - 1;

ProtoWriter Attribute(const std::string& name, const OnnxAttribute& value) {
  ProtoWriter attribute;
  attribute.Bytes(kAttributeName, name);
  if (const auto* const number = std::get_if<int64_t>(&value)) {
    attribute.Int(kInt, *number).Int(kType, kIntType);
  } else if (const auto* const real = std::get_if<float>(&value)) {
    attribute.Float(kFloat, *real).Int(kType, kFloatType);
  } else if (const auto* const text = std::get_if<std::string>(&value)) {
    attribute.Bytes(kString, *text).Int(kType, kStringType);
  } else {
    for (const int64_t each : std::get<std::vector<int64_t>>(value)) attribute.Int(kInts, each);
    attribute.Int(kType, kIntsType);
  }
  return attribute;
}

ProtoWriter ValueInfo(const std::string& name, at::ScalarType type, const std::vector<int64_t>& sizes) {
  ProtoWriter shape, tensor, of, value;
  for (const int64_t size : sizes) {
    ProtoWriter dim;
    size < 0 ? dim.Bytes(kDimParam, "batch") : dim.Int(kDimValue, size);
    shape.Message(kDim, dim);
  }
  tensor.Int(kElemType, OnnxType(type)).Message(kShape, shape);
  of.Message(kTensorType, tensor);
  value.Bytes(kValueName, name).Message(kValueType, of);
  return value;
}

}  // namespace

int64_t OnnxType(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return 1;
    case at::kByte:
      return 2;
    case at::kChar:
      return 3;
    case at::kShort:
      return 5;
    case at::kInt:
      return 6;
    case at::kLong:
      return 7;
    case at::kBool:
      return 9;
    case at::kHalf:
      return 10;
    case at::kDouble:
      return 11;
    case at::kBFloat16:
      return 16;
    default:
      return 0;
  }
}

std::vector<std::string> OnnxGraph::Nodes(const std::string& op, const std::vector<std::string>& inputs,
                                          const OnnxAttributes& attributes, size_t outputs) {
  ProtoWriter node;
  for (const std::string& input : inputs) node.Bytes(kNodeInput, input);
  std::vector<std::string> names;
  for (size_t i = 0; i < outputs; ++i) {
    names.push_back(absl::StrCat(op, "_", names_++));
    node.Bytes(kNodeOutput, names.back());
  }
  node.Bytes(kNodeName, names.at(0)).Bytes(kOpType, op);
  for (const auto& [name, value] : attributes) node.Message(kAttribute, Attribute(name, value));
  graph_.Message(kNode, node);
  return names;
}

std::string OnnxGraph::Constant(const at::Tensor& tensor, const std::string& name) {
  const at::Tensor data = tensor.detach().cpu().contiguous();
  const int64_t type = OnnxType(data.scalar_type());
  TORCH_CHECK_VALUE(type != 0, "ONNX has no tensors of ", data.scalar_type());
  ProtoWriter proto;
  for (const int64_t size : data.sizes()) proto.Int(kDims, size);
  const std::string unique = name.empty() ? absl::StrCat("constant_", names_++) : name;
  proto.Int(kDataType, type).Bytes(kTensorName, unique);
  proto.Bytes(kRawData, {static_cast<const char*>(data.const_data_ptr()), data.nbytes()});
  constant_bytes_ += static_cast<int64_t>(data.nbytes());
  if (constant_bytes_ < kLargestFile) graph_.Message(kInitializer, proto);
  return unique;
}

std::string OnnxGraph::Ints(const std::vector<int64_t>& values) { return Constant(torch::tensor(values, at::kLong)); }

void OnnxGraph::Input(const std::string& name, at::ScalarType type, const std::vector<int64_t>& sizes) {
  graph_.Message(kInput, ValueInfo(name, type, sizes));
}

void OnnxGraph::Output(const std::string& value, const std::string& name, at::ScalarType type,
                       const std::vector<int64_t>& sizes) {
  ProtoWriter node;
  node.Bytes(kNodeInput, value).Bytes(kNodeOutput, name).Bytes(kOpType, "Identity");
  graph_.Message(kNode, node).Message(kOutput, ValueInfo(name, type, sizes));
}

absl::StatusOr<std::string> OnnxGraph::File(const std::string& producer) const {
  if (constant_bytes_ >= kLargestFile)
    return absl::ResourceExhaustedError(absl::StrCat(
        "the weights have ", constant_bytes_, " bytes, and an ONNX file holds 2 GB at most; export safetensors"));
  ProtoWriter opset, model, graph = graph_;
  opset.Bytes(kAttributeName, "").Int(kOpsetVersion, kOpset);
  graph.Bytes(kGraphName, "model");
  model.Int(kIrVersion, kIr).Bytes(kProducer, producer).Bytes(kProducerVersion, COMPOSER_VERSION);
  model.Message(kGraph, graph).Message(kOpsetImport, opset);
  return model.bytes();
}

}  // namespace composer
