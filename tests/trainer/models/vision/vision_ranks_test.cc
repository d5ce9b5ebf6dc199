// The models for pictures under FULL_SHARD, with weights that torchvision wrote.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <sstream>

#include "absl/time/clock.h"
#include "checkpoint/tools/tools.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/small_run.h"
#include "tests/trainer/models/vision/vision_golden.h"
#include "tests/trainer/parallel/fsdp_runs.h"

namespace composer {
namespace {

// The golden's rows, repeated to 8 and different.
TrainerOptions VisionRun(const std::string& name) {
  TrainerOptions options = SmallRun();
  options.model = nullptr;
  options.make_model = [name] { return LoadVisionGolden(name); };
  const Batch batch = BatchOfGolden(name);
  const int64_t times = 8 / batch.num_samples;
  std::vector<at::Tensor> inputs, targets;
  for (int64_t i = 0; i < times; ++i) {
    inputs.push_back(batch.inputs * (1.0 - 0.1 * static_cast<double>(i)));
    targets.push_back(batch.targets);
  }
  options.train.dataset = MakeTensorRows(torch::cat(inputs), torch::cat(targets));
  options.train.global_train_batch_size = 8;
  options.make_optimizer = [](Model& model) { return MakeTestAdamW(model, 1e-3); };
  options.max_duration = Time::Batches(3);
  return options;
}

class VisionOnTwoRanks : public testing::TestWithParam<const char*> {};

// Norms are over a rank's own pictures, so the comparison is with two ranks that hold the whole model.
TEST_P(VisionOnTwoRanks, FullShardTrainsAsWholeModels) {
  const auto whole = TrainOnRanks(2, [&](int) { return VisionRun(GetParam()); });
  ASSERT_TRUE(whole[0].status.ok()) << whole[0].status;
  EXPECT_NE(whole[0].losses.back(), whole[0].losses.front());
  const auto sharded = TrainOnRanks(2, [&](int) {
    TrainerOptions options = VisionRun(GetParam());
    options.fsdp.emplace().strategy = ShardingStrategy::kFullShard;
    return options;
  });
  for (size_t rank = 0; rank < 2; ++rank) {
    const RunResult &a = sharded[rank], &b = whole[rank];
    ASSERT_TRUE(a.status.ok()) << a.status;
    ASSERT_EQ(a.losses.size(), b.losses.size());
    for (size_t i = 0; i < a.losses.size(); ++i) EXPECT_NEAR(a.losses[i] / b.losses[i], 1, 1e-5) << i;
    EXPECT_LE(RelativeError(a, b), 5e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(Vision, VisionOnTwoRanks, testing::ValuesIn(kVisionGoldens),
                         [](const auto& info) { return std::string(info.param); });

// A file of torchvision's becomes a checkpoint, from which a job begins; a new last layer keeps its drawn values.
TEST(VisionWeights, OfTorchSaveAreImportedAndLoaded) {
  const TempDir dir;
  std::ostringstream text, errors;
  const std::string folder = dir.path() + "/weights";
  ASSERT_EQ(RunCheckpointTool({"import", WeightsOfGolden("resnet18"), folder}, nullptr, absl::Now(), text, errors), 0)
      << errors.str();
  const RunResult loaded = Train(VisionRun("resnet18"));
  TrainerOptions options = VisionRun("resnet18");
  options.make_model = [] { return GoldenOf("resnet18").make(); };
  options.load.load_path = folder;
  options.load.load_weights_only = true;
  const RunResult imported = Train(std::move(options));
  ASSERT_TRUE(imported.status.ok()) << imported.status;
  EXPECT_EQ(imported.losses, loaded.losses);

  TrainerOptions other = VisionRun("resnet18");
  other.make_model = [] { return MakeResNet({.depth = 18, .classes = 7, .width = 2}); };
  other.load.load_path = folder;
  other.load.load_weights_only = true;
  EXPECT_THAT(Train(std::move(other)).status.message(), testing::HasSubstr("fc."));
  TrainerOptions fresh = VisionRun("resnet18");
  std::shared_ptr<Model> model;
  fresh.make_model = [&] { return model = MakeResNet({.depth = 18, .classes = 7, .width = 2}); };
  fresh.load.load_path = folder;
  fresh.load.load_weights_only = true;
  fresh.load.load_strict_model_weights = false;
  fresh.load.load_ignore_keys = IgnoredKeys({"model/fc.*"});
  fresh.max_duration = Time::Batches(1);
  fresh.make_optimizer = [](Model& made) { return MakeTestAdamW(made, 1e-6); };
  const RunResult head = Train(std::move(fresh));
  ASSERT_TRUE(head.status.ok()) << head.status;
  const TensorsByName file = ReadTensors(WeightsOfGolden("resnet18"));
  for (const auto& [name, tensor] : head.tensors) {
    // The step's weight decay is 1e-3.
    if (name == "layer3.0.conv1.weight") EXPECT_LE(RelativeDifferenceOf(tensor, file.at(name)), 2e-3);
    if (name == "fc.weight") EXPECT_EQ(tensor.size(0), 7);
  }
}

}  // namespace
}  // namespace composer
