// SPDX-License-Identifier: Apache-2.0
#include "trainer/init/deferred_ops.h"

#include <torch/library.h>
#include <torch/types.h>

#include <algorithm>

#include "absl/container/flat_hash_set.h"

namespace composer {
namespace {

// The scope of this thread: a kernel has no other way to find it.
thread_local DeferredOps* scope = nullptr;

void Kernel(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard below(c10::DispatchKey::DeferredInit);
  if (scope == nullptr) {
    op.callBoxed(stack);
  } else {
    scope->Run(op, *stack);
  }
}

// Installs the kernel once per process, for the process's lifetime.
void InstallKernel() {
  static torch::Library* const library = [] {
    auto* made = new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::DeferredInit, __FILE__, __LINE__);
    made->fallback(torch::CppFunction::makeFromBoxedFunction<&Kernel>());
    return made;
  }();
  (void)library;
}

void SetArgument(const c10::FunctionSchema& schema, const char* name, const c10::IValue& value,
                 torch::jit::Stack& stack) {
  const int index = ArgumentIndex(schema, name);
  if (index >= 0 && !stack[static_cast<size_t>(index)].isNone()) stack[static_cast<size_t>(index)] = value;
}

// torch::tensor(values) makes an empty tensor under these guards and writes to it through a pointer.
bool IsTensorOfValues() {
  return c10::impl::tls_is_dispatch_keyset_excluded(c10::autograd_dispatch_keyset) &&
         !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::ADInplaceOrView);
}

bool IsTensorType(const c10::TypePtr& type) {
  if (const auto list = type->cast<c10::ListType>()) return IsTensorType(list->getElementType());
  return type->kind() == c10::TypeKind::TensorType;
}

bool HasTensorResults(const c10::FunctionSchema& schema) {
  return schema.returns().empty() ||  // void operations work in place
         std::any_of(schema.returns().begin(), schema.returns().end(),
                     [](const c10::Argument& result) { return IsTensorType(result.type()); });
}

void CheckCanBeDeferred(const OpRecording& recording, const c10::FunctionSchema& schema,
                        const torch::jit::Stack& stack) {
  const int generator = ArgumentIndex(schema, "generator");
  TORCH_CHECK_NOT_IMPLEMENTED(generator < 0 || stack[static_cast<size_t>(generator)].isNone(), schema.name(),
                              " draws from a generator of the caller's own");
  for (size_t i = 0; i < stack.size(); ++i) {
    TORCH_CHECK_NOT_IMPLEMENTED(!stack[i].isStorage(), schema.name(), " takes a storage");
    const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
    if (alias == nullptr || !alias->isWrite()) continue;
    for (const at::Tensor& tensor : TensorsOf({stack[i]})) {
      TORCH_CHECK_NOT_IMPLEMENTED(recording.Knows(tensor), schema.name(),
                                  " writes values that do not exist yet to a tensor that has memory");
    }
  }
}

at::Tensor MetaLike(const at::Tensor& tensor) {
  return tensor.is_meta() ? tensor
                          : at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
}

// Computes results of device meta. An operation without a kernel for shapes (convolutions) is run on zeros.
void RunShapes(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  torch::jit::Stack shapes = stack;
  try {
    op.callBoxed(shapes);
  } catch (const c10::Error&) {
    const auto writes = [](const c10::Argument& arg) { return arg.alias_info() != nullptr; };
    const auto& arguments = op.schema().arguments();
    if (op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output) ||
        op.hasTag(at::Tag::nondeterministic_seeded) || std::any_of(arguments.begin(), arguments.end(), writes))
      throw;
    const at::NoGradGuard no_grad;
    shapes = MapTensors(stack, [](const at::Tensor& tensor) {
      return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU)).zero_();
    });
    op.callBoxed(shapes);
    shapes = MapTensors(shapes, MetaLike);
  }
  stack = std::move(shapes);
}

}  // namespace

DeferredOps::DeferredOps(OpRecording& recording)
    : recording_(recording), outer_(scope), include_((InstallKernel(), c10::DispatchKey::DeferredInit)) {
  scope = this;
}

DeferredOps::~DeferredOps() { scope = outer_; }

std::vector<at::Tensor> DeferredOps::LiveTensors() const {
  std::vector<at::Tensor> live;
  absl::flat_hash_set<const c10::TensorImpl*> seen;
  for (const auto& weak : tensors_) {
    auto impl = weak.lock();
    if (impl != nullptr && seen.insert(impl.get()).second) live.emplace_back(std::move(impl));
  }
  return live;
}

void DeferredOps::Run(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const std::vector<at::Tensor> tensors = TensorsOf(stack);
  const bool is_deferred =
      std::any_of(tensors.begin(), tensors.end(), [this](const at::Tensor& t) { return recording_.Knows(t); });
  const bool makes = tensors.empty() && ArgumentIndex(op.schema(), "device") >= 0 && HasTensorResults(op.schema());
  if (!is_deferred && (!makes || IsTensorOfValues())) {
    op.callBoxed(stack);
  } else if (HasTensorResults(op.schema())) {
    RunDeferred(op, stack);
  } else {
    RunNow(op, stack);
  }
}

void DeferredOps::RunDeferred(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const c10::FunctionSchema& schema = op.schema();
  CheckCanBeDeferred(recording_, schema, stack);
  const bool makes = TensorsOf(stack).empty();
  SetArgument(schema, "pin_memory", false, stack);
  SetArgument(schema, "device", c10::Device(at::kCPU), stack);
  torch::jit::Stack args = stack;
  stack = MapTensors(stack, MetaLike);
  SetArgument(schema, "device", c10::Device(at::kMeta), stack);
  if (makes) stack[static_cast<size_t>(ArgumentIndex(schema, "device"))] = c10::Device(at::kMeta);
  RunShapes(op, stack);
  const std::vector<at::Tensor> outputs = TensorsOf(stack);
  {
    const at::NoGradGuard no_grad;
    recording_.Add(op, args, outputs);
  }
  for (const at::Tensor& output : outputs) {
    output.storage().unsafeGetStorageImpl()->set_throw_on_mutable_data_ptr();
    tensors_.emplace_back(output.getIntrusivePtr());
  }
}

void DeferredOps::RunNow(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  try {  // for operations that only need shapes
    torch::jit::Stack shapes = stack;
    op.callBoxed(shapes);
    stack = std::move(shapes);
    return;
  } catch (const c10::Error&) {  // the error is "cannot be called on meta tensors", in several wordings
  }
  OpRecording::RealStorages real;
  for (const at::Tensor& tensor : TensorsOf(stack)) {
    if (!recording_.Knows(tensor) || real.contains(OpRecording::KeyOf(tensor))) continue;
    const OpRecording::Slice slice = recording_.SliceOf(OpRecording::KeyOf(tensor));
    for (auto& [key, made] : recording_.Run(slice, [&](size_t random) -> uint64_t {
           TORCH_CHECK_NOT_IMPLEMENTED(false, op.schema().name(), " asks for the value of random numbers (",
                                       recording_.NameOf(random), ")");
         })) {
      real.emplace(key, std::move(made));
    }
  }
  stack = OpRecording::WithReal(stack, real);
  op.callBoxed(stack);
}

void ReplaceData(const at::Tensor& tensor, const at::Tensor& data) {
  tensor.unsafeGetTensorImpl()->shallow_copy_from(data.getIntrusivePtr());
}

}  // namespace composer
