// Training runs on the mock accelerator, to be compared with the same runs on the CPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>
#include <vector>

#include "tests/support/accelerator/fixture.h"
#include "tests/support/accelerator/group.h"
#include "tests/support/spawn_ranks.h"
#include "tests/trainer/loop/golden_gpt.h"
#include "tests/trainer/loop/small_run.h"
#include "trainer/collectives/c10d_communicator.h"

namespace composer::mock {

// A GPT of two layers, 6 steps.
inline TrainerOptions GptRun() {
  TrainerOptions options = SmallRun();
  const GptOptions shape{.layers = 2, .heads = 2, .width = 16, .context = 8, .vocab = 20};
  options.model = MakeGoldenGpt(shape);
  Draws draws(4);
  at::Tensor tokens = torch::empty({24, 8}, at::kLong);
  for (int64_t i = 0; i < tokens.numel(); ++i)
    tokens.mutable_data_ptr<int64_t>()[i] = static_cast<int64_t>((draws.Next() + 1) * 10);
  options.train.dataset = MakeTensorRows(tokens, tokens, 8);
  return options;
}

inline RunResult ToHost(RunResult result) {
  for (auto& [name, tensor] : result.tensors) tensor = tensor.cpu();
  return result;
}

inline RunResult TrainOnMock(TrainerOptions options) {
  options.device = kDevice;
  return ToHost(Train(std::move(options)));
}

using OptionsOfRank = std::function<TrainerOptions(int rank)>;
// Wraps a rank's communicator, to plant faults.
using WrapCommunicator = std::function<std::unique_ptr<Communicator>(Communicator&)>;

// Ranks are threads with a device each, over MockGroup.
inline std::vector<RunResult> TrainOnMockRanks(int size, const OptionsOfRank& options,
                                               const WrapCommunicator& wrap = nullptr) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<RunResult> results(static_cast<size_t>(size));
  SpawnRanks(size, [&](int rank) {
    SetCurrentDevice(rank);
    const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(rank));
    const C10dCommunicator::GroupFactory connect = [&](const std::string& name, int own, int of) {
      return c10::make_intrusive<MockGroup>(c10::make_intrusive<c10d::PrefixStore>("group/" + name, store), own, of);
    };
    std::unique_ptr<Communicator> communicator = std::make_unique<LocalCommunicator>(device);
    if (size > 1) communicator = std::make_unique<C10dCommunicator>(connect("world", rank, size), device, connect);
    const std::unique_ptr<Communicator> wrapped = wrap ? wrap(*communicator) : nullptr;
    TrainerOptions own = options(rank);
    own.device = device;
    own.communicator = wrapped != nullptr ? wrapped.get() : communicator.get();
    own.store = c10::make_intrusive<c10d::PrefixStore>("run", store);
    results[static_cast<size_t>(rank)] = ToHost(Train(std::move(own)));
    Machine::Get().WaitForDevice(rank, "end of the run");
  });
  return results;
}

// The same weights to the bit; losses but for the order of a multiplication and an addition in float64.
inline void ExpectSameRun(const RunResult& mock, const RunResult& cpu) {
  ASSERT_TRUE(cpu.status.ok()) << cpu.status;
  ASSERT_TRUE(mock.status.ok()) << mock.status;
  ASSERT_EQ(mock.losses.size(), cpu.losses.size());
  for (size_t i = 0; i < cpu.losses.size(); ++i) EXPECT_DOUBLE_EQ(mock.losses[i], cpu.losses[i]) << "step " << i;
  ASSERT_EQ(mock.tensors.size(), cpu.tensors.size());
  ASSERT_FALSE(cpu.tensors.empty());
  for (size_t i = 0; i < cpu.tensors.size(); ++i)
    EXPECT_TRUE(mock.tensors[i].second.equal(cpu.tensors[i].second)) << cpu.tensors[i].first;
}

}  // namespace composer::mock
