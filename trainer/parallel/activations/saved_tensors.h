// What autograd keeps for backward, kept in another way: hooks around every tensor that an operation saves.
//
// LibTorch has the hooks (torch::autograd::SavedVariableHooks) but a way to set them for Python alone. So the process gets
// an autograd engine of its own, whose one difference from torch's is that it asks the scopes below which hooks a tensor
// that is being saved shall have. Source: torch/csrc/autograd/{engine.h,saved_variable.h}.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>

namespace composer {

// How tensors are saved while a scope with it is open.
class SavedTensorPolicy {
 public:
  virtual ~SavedTensorPolicy() = default;
  // Of one tensor about to be saved. Its call_pack_hook gets the tensor, detached, without grad mode; call_unpack_hook gives
  // it back when backward needs it, any number of times, on whatever thread runs backward. It is destroyed when the
  // operation's node lets go of it. Null: saved as torch does.
  virtual std::unique_ptr<torch::autograd::SavedVariableHooks> MakeHooks() = 0;
};

// Makes the engine above the process's. A process that trains on a GPU must call it before its first backward (torch
// starts the threads of the engine of the first one only); on a CPU the first scope does it. Any number of times, any
// thread.
void InstallSavedTensorHooks();

// From its construction to its end, operations of this thread save by `policy`, which must outlive the scope; of several
// scopes the innermost counts. Costs without any scope: one look at a thread-local a saved tensor.
class SavedTensorScope {
 public:
  explicit SavedTensorScope(SavedTensorPolicy& policy);
  ~SavedTensorScope();
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;
};

}  // namespace composer
