// SPDX-License-Identifier: Apache-2.0
#include "trainer/layers/call_record.h"

#include <ATen/core/ivalue.h>

#include <array>
#include <cstdint>
#include <vector>

namespace composer {
namespace {

// Marks an input as the address of a module; the address itself looks like any other number.
constexpr char kMark[] = "composer::ModuleCall";

}  // namespace

void BeginCallRecord(at::RecordFunction& record, const torch::nn::Module& module, const at::Tensor& input) {
  const auto address = static_cast<int64_t>(reinterpret_cast<intptr_t>(&module));
  const std::array<c10::IValue, 2> inputs = {
      c10::IValue(c10::ivalue::Tuple::create({c10::IValue(kMark), c10::IValue(address)})), c10::IValue(input)};
  record.before(std::string_view(module.name()), c10::ArrayRef<const c10::IValue>(inputs.data(), inputs.size()));
}

void EndCallRecord(at::RecordFunction& record, const at::Tensor& output) {
  if (record.needsOutputs()) record.setOutputs(std::vector<c10::IValue>{output});
}

const torch::nn::Module* ModuleOfCallRecord(const at::RecordFunction& record) {
  if (record.scope() != at::RecordScope::USER_SCOPE || record.inputs().empty()) return nullptr;
  const c10::IValue& first = record.inputs()[0];
  if (!first.isTuple()) return nullptr;
  const auto& fields = first.toTupleRef().elements();
  if (fields.size() != 2 || !fields[0].isString() || !fields[1].isInt() || fields[0].toStringRef() != kMark)
    return nullptr;
  return reinterpret_cast<const torch::nn::Module*>(static_cast<intptr_t>(fields[1].toInt()));
}

}  // namespace composer
