// The mock accelerator as the libraries that composer_worker loads for `device: gpu`: this file is both
// libtorch_cuda.so, by which LibTorch gets a CUDA device, and composer_cuda.so. What the mock finds ends the worker. It
// links nothing of the trainer's: the worker has the symbols, as for plugins.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/support/accelerator/graphs.h"
#include "tests/support/accelerator/group.h"
#include "tests/support/accelerator/install.h"
#include "worker/cuda/cuda_module.h"

namespace composer::mock {
namespace {

class MockModule final : public CudaModule {
 public:
  MockModule() {
    Install();
    const auto seed = static_cast<uint64_t>(getpid());
    Machine::Get().Restart(seed);
    Machine::Get().SetStuckLimit(std::chrono::minutes(10));
    Machine::Get().OnFault([seed](const std::string& fault) {
      std::fprintf(stderr, "mock accelerator (seed %llu): %s\n", static_cast<unsigned long long>(seed), fault.c_str());
      std::abort();
    });
  }
  int device_count() const override { return kDevices; }
  void SetDevice(int index) override { SetCurrentDevice(index); }
  c10::intrusive_ptr<c10d::Backend> CreateNcclGroup(c10::intrusive_ptr<c10d::Store> store,
                                                    const NcclOptions& options) override {
    return c10::make_intrusive<MockGroup>(ExchangeOfProcesses(store, options.rank, options.world_size, options.timeout),
                                          options.rank, options.world_size);
  }
  int capability(int /*index*/) const override { return 80; }
  void RegisterKernels() override { RegisterOwnOperators(); }
  GraphCapture& graphs() override { return graphs_; }
  std::string FlightRecord() override { return R"({"entries": []})"; }

 private:
  MockGraphs graphs_;
};

}  // namespace
}  // namespace composer::mock

const char* composer_cuda_version() { return COMPOSER_VERSION; }

composer::CudaModule* composer_cuda_module() {
  static composer::mock::MockModule& module = *new composer::mock::MockModule;
  return &module;
}
