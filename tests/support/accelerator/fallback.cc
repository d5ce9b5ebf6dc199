// SPDX-License-Identifier: Apache-2.0
#include "tests/support/accelerator/fallback.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/accelerator/call_signature.h"
#include "tests/support/accelerator/generator.h"
#include "tests/support/accelerator/install.h"
#include "tests/support/accelerator/machine.h"
#include "tests/support/accelerator/shadow.h"
#include "trainer/kernels/cpu_gelu.h"

namespace composer::mock {
namespace {

using torch::jit::Stack;

// CPU tensors with dimensions beside device tensors are a mistake, except as indices and where a list of scalars may
// lie on the host.
bool TakesHostTensors(const std::string& name) { return absl::StrContains(name, "index"); }

// Running statistics are written although the schemas of these do not say so.
bool WritesUndeclared(const std::string& op, const std::string& argument) {
  return absl::StrContains(op, "batch_norm") && absl::StartsWith(argument, "running_");
}

// One call: its arguments as the CPU's kernel gets them.
struct Call {
  explicit Call(const c10::OperatorHandle& handle) : op(handle) {}
  c10::OperatorHandle op;
  Stack arguments;                  // real
  Stack shadows;                    // what the kernel gets
  std::vector<at::Tensor> mutated;  // real tensors that the schema says are written, in the order of arguments
  std::vector<at::Tensor> mutated_shadows;
  Shadows views;
  int device = -1;
  bool draws = false;
};

at::Tensor Converted(Call& call, const at::Tensor& tensor, bool writes) {
  if (!tensor.defined()) return tensor;
  if (tensor.is_cuda()) {
    TORCH_CHECK(call.device < 0 || call.device == tensor.get_device(), call.op.schema().name(),
                ": Expected all tensors to be on the same device, but found cuda:", call.device, " and ",
                tensor.device());
    call.device = tensor.get_device();
    at::Tensor shadow = call.views.Of(tensor, writes);
    if (writes) {
      call.mutated.push_back(tensor);
      call.mutated_shadows.push_back(shadow);
    }
    return shadow;
  }
  TORCH_CHECK(tensor.dim() == 0 || TakesHostTensors(call.op.schema().name()), call.op.schema().name(),
              ": Expected all tensors to be on the same device, but found at least two devices, cuda and cpu!");
  TORCH_CHECK(!writes, call.op.schema().name(), " would write to a tensor of the host");
  at::Tensor copy = tensor.clone();
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) copy.unsafeGetTensorImpl()->set_wrapped_number(true);
  return copy;
}

c10::IValue Converted(Call& call, const c10::IValue& value, const c10::Argument& argument) {
  const bool writes = (argument.alias_info() != nullptr && argument.alias_info()->isWrite()) ||
                      WritesUndeclared(call.op.schema().name(), argument.name());
  if (value.isTensor()) return Converted(call, value.toTensor(), writes);
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(Converted(call, tensor, writes));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
      list.push_back(tensor.has_value() ? std::optional(Converted(call, *tensor, writes)) : std::nullopt);
    return list;
  }
  if (value.isGenerator() || argument.type()->str() == "Generator?") {
    call.draws = true;
    return InnerGenerator(value.isNone() ? std::nullopt : std::optional(value.toGenerator()));
  }
  if (value.isDevice()) return c10::Device(c10::kCPU);
  return value;
}

// GELU by tanh is the trainer's own kernel on a CPU: here, too, so that bits can be compared.
bool RunTrainersGelu(const c10::OperatorHandle& op, Stack& stack) {
  const std::string& name = op.schema().name();
  const bool forward = name == "aten::gelu";
  if ((!forward && name != "aten::gelu_backward") || !op.schema().overload_name().empty() ||
      stack.back().toStringRef() != "tanh" || !kernels::TakesCpuGelu(stack[0].toTensor()))
    return false;
  at::Tensor result = forward ? kernels::CpuGeluForward(stack[0].toTensor())
                              : kernels::CpuGeluBackward(stack[0].toTensor(), stack[1].toTensor());
  stack = {std::move(result)};
  return true;
}

void CallCpuKernel(const c10::OperatorHandle& op, Stack& stack) {
  const at::AutoDispatchBelowADInplaceOrView below;
  if (RunTrainersGelu(op, stack)) return;
  if (op.hasKernelForDispatchKey(c10::DispatchKey::CPU)) {
    op.callBoxedForDispatchKey(c10::DispatchKey::CPU, stack);
  } else {
    op.callBoxed(stack);
  }
}

// Every result tensor in order; results that are an argument are skipped.
std::vector<at::Tensor> NewTensors(const c10::FunctionSchema& schema, const Stack& results) {
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < results.size(); ++i) {
    if (schema.returns()[i].alias_info() != nullptr) continue;
    if (results[i].isTensor()) tensors.push_back(results[i].toTensor());
    if (results[i].isTensorList()) {
      for (const at::Tensor& tensor : results[i].toTensorVector()) tensors.push_back(tensor);
    }
  }
  return tensors;
}

size_t ArgumentOf(const c10::FunctionSchema& schema, const c10::Argument& result) {
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (alias != nullptr && alias->beforeSets() == result.alias_info()->beforeSets()) return i;
  }
  TORCH_CHECK(false, "mock accelerator: ", schema.name(), " returns a view and has no kernel of the mock's own");
}

// Gives a resized out tensor its new size; what the kernel wrote is copied then.
void Resize(const at::Tensor& real, const ResultShape& shape) {
  if (real.sizes() == at::IntArrayRef(shape.sizes) && real.strides() == at::IntArrayRef(shape.strides)) return;
  real.resize_(shape.sizes);
  real.unsafeGetTensorImpl()->set_sizes_and_strides(shape.sizes, shape.strides);
}

void CopyInto(const at::Tensor& to, const at::Tensor& from) {
  if (to.numel() > 0 && to.data_ptr() != from.data_ptr()) to.copy_(from);
}

Stack ResultsOf(const Call& call, const Stack& kernel_results, const std::vector<at::Tensor>& made) {
  const c10::FunctionSchema& schema = call.op.schema();
  Stack results;
  size_t next = 0;
  for (size_t i = 0; i < schema.returns().size(); ++i) {
    const c10::Argument& result = schema.returns()[i];
    if (result.alias_info() != nullptr) {
      results.push_back(call.arguments[ArgumentOf(schema, result)]);
    } else if (result.type()->kind() == c10::TypeKind::TensorType) {
      results.emplace_back(made[next++]);
    } else if (result.type()->kind() == c10::TypeKind::ListType) {
      // Only the last result of an operator is a list, if any.
      results.emplace_back(
          c10::List<at::Tensor>(std::vector<at::Tensor>(made.begin() + static_cast<int64_t>(next), made.end())));
      next = made.size();
    } else {
      results.push_back(kernel_results[i]);
    }
  }
  return results;
}

std::vector<at::Tensor> MakeOutputs(const Call& call, const std::vector<ResultShape>& shapes, size_t skip) {
  std::vector<at::Tensor> made;
  for (size_t i = skip; i < shapes.size(); ++i) {
    const ResultShape& shape = shapes[i];
    made.push_back(shape.defined ? EmptyOnDevice(shape.sizes, shape.strides, shape.dtype, call.device) : at::Tensor());
  }
  return made;
}

struct Run {
  Stack stack;
  std::vector<at::Tensor> mutated;
};

// Runs the kernel before it returns, and learns the shapes.
Stack RunNow(Call& call, const std::string& signature, int stream, bool for_host) {
  Machine& machine = Machine::Get();
  const std::string& name = call.op.schema().name();
  const auto run = std::make_shared<Run>(Run{std::move(call.shadows), {}});
  const auto error = std::make_shared<std::exception_ptr>();
  machine.Launch(stream, {name, call.views.TakeUses(), [run, error, op = call.op] {
                            try {
                              CallCpuKernel(op, run->stack);
                            } catch (...) {
                              *error = std::current_exception();
                            }
                          }});
  if (for_host) {
    machine.WaitForHost(machine.Record(stream), name);
  } else {
    machine.Drain(stream);
  }
  if (*error != nullptr) std::rethrow_exception(*error);
  CallShapes shapes;
  for (const at::Tensor& shadow : call.mutated_shadows) shapes.results.push_back(ShapeOf(shadow));
  const std::vector<at::Tensor> computed = NewTensors(call.op.schema(), run->stack);
  for (const at::Tensor& tensor : computed) shapes.results.push_back(ShapeOf(tensor));
  const std::vector<at::Tensor> made = MakeOutputs(call, shapes.results, call.mutated.size());
  for (size_t i = 0; i < call.mutated.size(); ++i) Resize(call.mutated[i], shapes.results[i]);
  Shadows views;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  for (size_t i = 0; i < call.mutated.size(); ++i)
    copies.emplace_back(views.Of(call.mutated[i], true), call.mutated_shadows[i]);
  for (size_t i = 0; i < made.size(); ++i) {
    if (made[i].defined()) copies.emplace_back(views.Of(made[i], true), computed[i]);
  }
  machine.Launch(stream, {name, views.TakeUses(), [copies = std::move(copies)] {
                            for (const auto& [to, from] : copies) CopyInto(to, from);
                          }});
  if (!for_host) LearnShapes(signature, std::move(shapes));
  return ResultsOf(call, run->stack, made);
}

Stack RunLater(Call& call, const CallShapes& shapes, int stream) {
  const size_t given = call.mutated.size();
  // The kernel resizes its own view; the result is copied.
  for (size_t i = 0; i < given; ++i) Resize(call.mutated[i], shapes.results[i]);
  const std::vector<at::Tensor> made = MakeOutputs(call, shapes.results, given);
  Shadows results;  // a resized tensor has new memory
  std::vector<at::Tensor> targets;
  for (const at::Tensor& tensor : call.mutated) targets.push_back(results.Of(tensor, true));
  for (const at::Tensor& tensor : made) targets.push_back(tensor.defined() ? results.Of(tensor, true) : tensor);
  std::vector<Access> uses = call.views.TakeUses();
  for (const Access& access : results.TakeUses()) uses.push_back(access);
  auto run = [op = call.op, stack = std::move(call.shadows), written = call.mutated_shadows, targets]() mutable {
    CallCpuKernel(op, stack);
    const std::vector<at::Tensor> computed = NewTensors(op.schema(), stack);
    TORCH_CHECK(written.size() + computed.size() == targets.size(), op.schema().name(), ": wrong number of results");
    for (size_t i = 0; i < targets.size(); ++i) {
      if (!targets[i].defined()) continue;
      const at::Tensor& from = i < written.size() ? written[i] : computed[i - written.size()];
      TORCH_CHECK(from.sizes() == targets[i].sizes(), op.schema().name(), ": the mock expected results of shape ",
                  targets[i].sizes(), ", not ", from.sizes());
      CopyInto(targets[i], from);
    }
  };
  Machine::Get().Launch(stream, {call.op.schema().name(), std::move(uses), std::move(run)});
  return ResultsOf(call, {}, made);
}

}  // namespace

void RunOnMock(const c10::OperatorHandle& op, Stack* stack) {
  Call call(op);
  const auto& schema = op.schema();
  const size_t count = schema.arguments().size();
  call.arguments.assign(stack->end() - static_cast<int64_t>(count), stack->end());
  for (size_t i = 0; i < count; ++i) call.shadows.push_back(Converted(call, call.arguments[i], schema.arguments()[i]));
  if (call.device < 0) call.device = CurrentDevice();
  const int stream = CurrentStream(call.device);
  const std::string signature = SignatureOf(op, call.arguments);
  const bool for_host = WaitsForValues(op, call.arguments);
  const Tape* const tape = Machine::Get().TapeOf(call.device);
  const bool captured = tape != nullptr && tape->Takes(stream);
  // Random numbers are drawn in the order of the program, whatever the order of streams; those of a graph when it runs.
  const bool draws_now = call.draws && !captured;
  const std::optional<CallShapes> known = for_host || draws_now ? std::nullopt : KnownShapes(signature);
  Stack results = known.has_value() ? RunLater(call, *known, stream) : RunNow(call, signature, stream, for_host);
  torch::jit::drop(*stack, count);
  for (c10::IValue& result : results) stack->push_back(std::move(result));
}

void RegisterCpuKernels() {
  static torch::Library& library =
      *new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!absl::StartsWith(name.name, "aten::") || !op.has_value() ||
        !op->hasKernelForDispatchKey(c10::DispatchKey::CPU) || op->hasKernelForDispatchKey(c10::DispatchKey::CUDA))
      continue;
    const auto& returns = op->schema().returns();
    const bool views = std::any_of(returns.begin(), returns.end(), [](const c10::Argument& result) {
      return result.alias_info() != nullptr && !result.alias_info()->isWrite();
    });
    if (views) continue;
    const std::string full = name.overload_name.empty() ? name.name : absl::StrCat(name.name, ".", name.overload_name);
    library.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&RunOnMock>());
  }
}

void RegisterOwnOperators() {
  static torch::Library& library =
      *new torch::Library(torch::Library::IMPL, "composer", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (absl::StartsWith(name.name, "composer::"))
      library.impl(name.name.c_str(), torch::CppFunction::makeFromBoxedFunction<&RunOnMock>());
  }
}

}  // namespace composer::mock

TORCH_LIBRARY_IMPL(_, CUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&composer::mock::RunOnMock>());
}
