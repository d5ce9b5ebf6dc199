// DeferredOps makes tensors without memory: within the scope, on this thread, new tensors are of device meta, and
// operations on such tensors apply to their shapes and are recorded. A kernel for all operators does this, at the
// dispatch key that LibTorch reserves for it (c10::DispatchKey::DeferredInit), above autograd.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <string>
#include <vector>

#include "trainer/init/op_recording.h"

namespace composer {

// Operations throw c10::Error for what cannot be done without values: reading through a pointer, a generator of the
// caller's own, a decision on random numbers. A value that does not depend on random numbers is computed when it is
// requested (`linspace(…)[i].item()`).
class DeferredOps {
 public:
  explicit DeferredOps(OpRecording& recording);
  ~DeferredOps();
  DeferredOps(const DeferredOps&) = delete;
  DeferredOps& operator=(const DeferredOps&) = delete;

  // Returns the tensors that were made or seen in the scope and are still alive, each object once; views and
  // temporaries too.
  std::vector<at::Tensor> LiveTensors() const;
  OpRecording& recording() { return recording_; }

  // Runs the kernel. `stack` has the arguments, which the results replace.
  void Run(const c10::OperatorHandle& op, torch::jit::Stack& stack);

 private:
  void RunDeferred(const c10::OperatorHandle& op, torch::jit::Stack& stack);
  // Computes results that are not tensors, from real values.
  void RunNow(const c10::OperatorHandle& op, torch::jit::Stack& stack);

  OpRecording& recording_;
  DeferredOps* outer_;
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> tensors_;
  c10::impl::IncludeDispatchKeyGuard include_;
};

// Gives the tensor the data of another, which may be on another device; it stays the same object with the same
// requires_grad. (Tensor::set_data refuses to leave the device meta.)
void ReplaceData(const at::Tensor& tensor, const at::Tensor& data);

}  // namespace composer
