// SPDX-License-Identifier: Apache-2.0
#include "tests/support/accelerator/call_signature.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace composer::mock {
namespace {

// Of these the sizes depend on the values of numbers.
constexpr std::array<std::string_view, 4> kSizedByNumbers = {"aten::arange", "aten::range", "aten::linspace",
                                                             "aten::logspace"};
constexpr std::array<std::string_view, 11> kSizedByValues = {
    "aten::nonzero",       "aten::masked_select",      "aten::_unique",
    "aten::_unique2",      "aten::unique_dim",         "aten::unique_consecutive",
    "aten::bincount",      "aten::repeat_interleave",  "aten::unique_dim_consecutive",
    "aten::count_nonzero", "aten::_sparse_mask_helper"};

template <size_t n>
bool Among(const std::array<std::string_view, n>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void Append(std::string& key, const at::Tensor& tensor) {
  if (!tensor.defined()) {
    key += "undefined ";
    return;
  }
  absl::StrAppend(&key, static_cast<int>(tensor.scalar_type()), "[", absl::StrJoin(tensor.sizes(), ","), "/",
                  absl::StrJoin(tensor.strides(), ","), "] ");
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) key += "number ";
}

void Append(std::string& key, const c10::IValue& value, bool numbers_count) {
  if (value.isTensor()) {
    Append(key, value.toTensor());
  } else if (value.isList()) {
    const auto list = value.toListRef();
    absl::StrAppend(&key, "(");
    for (const c10::IValue& element : list) Append(key, element, numbers_count);
    absl::StrAppend(&key, ") ");
  } else if (value.isDouble()) {
    absl::StrAppend(&key, numbers_count ? absl::StrCat(value.toDouble()) : "double", " ");
  } else if (value.isInt()) {
    absl::StrAppend(&key, value.toInt(), " ");
  } else if (value.isBool()) {
    absl::StrAppend(&key, value.toBool(), "b ");
  } else if (value.isString()) {
    absl::StrAppend(&key, value.toStringRef(), " ");
  } else {
    absl::StrAppend(&key, value.isNone() ? "none" : value.tagKind(), " ");
  }
}

bool IsMask(const c10::IValue& value) {
  if (!value.isTensor() || !value.toTensor().defined()) return false;
  const at::ScalarType dtype = value.toTensor().scalar_type();
  return dtype == at::kBool || dtype == at::kByte;
}

std::mutex shapes_mutex;
std::unordered_map<std::string, CallShapes>& Shapes() {
  static auto& shapes = *new std::unordered_map<std::string, CallShapes>;
  return shapes;
}

}  // namespace

std::string SignatureOf(const c10::OperatorHandle& op, const torch::jit::Stack& arguments) {
  const std::string& name = op.schema().name();
  std::string key = absl::StrCat(name, ".", op.schema().overload_name(), " ");
  const bool numbers_count = Among(kSizedByNumbers, name);
  for (const c10::IValue& value : arguments) Append(key, value, numbers_count);
  return key;
}

ResultShape ShapeOf(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {true, tensor.sizes().vec(), tensor.strides().vec(), tensor.scalar_type()};
}

std::optional<CallShapes> KnownShapes(const std::string& signature) {
  const std::lock_guard<std::mutex> lock(shapes_mutex);
  const auto found = Shapes().find(signature);
  if (found == Shapes().end()) return std::nullopt;
  return found->second;
}

void LearnShapes(const std::string& signature, CallShapes shapes) {
  const std::lock_guard<std::mutex> lock(shapes_mutex);
  if (Shapes().size() > 200000) Shapes().clear();
  Shapes()[signature] = std::move(shapes);
}

bool WaitsForValues(const c10::OperatorHandle& op, const torch::jit::Stack& arguments) {
  const std::string& name = op.schema().name();
  if (Among(kSizedByValues, name)) return true;
  const bool indexes = name == "aten::index" || name == "aten::_index_put_impl_" || name == "aten::index_put_";
  if (indexes) {
    for (const c10::IValue& index : arguments[1].toListRef()) {
      if (IsMask(index)) return true;
    }
  }
  const auto& returns = op.schema().returns();
  return std::any_of(returns.begin(), returns.end(), [](const c10::Argument& result) {
    const c10::TypeKind kind = result.type()->kind();
    return kind != c10::TypeKind::TensorType && kind != c10::TypeKind::ListType;
  });
}

}  // namespace composer::mock
