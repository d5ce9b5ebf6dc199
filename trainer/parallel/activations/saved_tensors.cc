// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/activations/saved_tensors.h"

#include <torch/csrc/autograd/engine.h>

#include <mutex>
#include <vector>

namespace composer {
namespace {

thread_local std::vector<SavedTensorPolicy*> scopes;

class HookedEngine final : public torch::autograd::Engine {
 public:
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return scopes.empty() ? nullptr : scopes.back()->MakeHooks();
  }
  // It is never destroyed, like torch's own engine for Python: its device threads wait on its queues until the process
  // ends.
  static torch::autograd::Engine& Get() {
    static HookedEngine* const engine = new HookedEngine;
    return *engine;
  }
};

}  // namespace

void InstallSavedTensorHooks() {
  static std::once_flag once;
  std::call_once(once, [] { torch::autograd::set_default_engine_stub(&HookedEngine::Get); });
}

SavedTensorScope::SavedTensorScope(SavedTensorPolicy& policy) {
  InstallSavedTensorHooks();
  scopes.push_back(&policy);
}

SavedTensorScope::~SavedTensorScope() { scopes.pop_back(); }

}  // namespace composer
