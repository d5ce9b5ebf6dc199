// A run of the Python Composer goes on here with its weights, optimizer and time, and its losses are Composer's.
// Goldens: tools/golden_composer_runs.py (mosaicml 0.32.1).
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "checkpoint/tools/tools.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/small_run.h"
#include "trainer/models/mlp.h"
#include "trainer/optim/recipes.h"

namespace composer {
namespace {

using testing::HasSubstr;

std::string Golden(const std::string& name) { return absl::StrCat("tests/golden/composer_runs/", name); }

struct Outcome {
  int code;
  std::string out, err;
};
Outcome Import(std::vector<std::string> args) {
  std::ostringstream out, err;
  args.insert(args.begin(), "import");
  const int code = RunCheckpointTool(args, nullptr, absl::Now(), out, err);
  return {code, out.str(), err.str()};
}

class FromPythonComposer : public testing::TestWithParam<const char*> {
 protected:
  // The run of the golden, which goes on from load_path for the 20 batches that Composer trained after its checkpoint.
  TrainerOptions Options(const std::string& load_path, std::vector<double>* losses) const {
    TrainerOptions options;
    options.model = MakeMlp({6, 8, 3});
    const auto inputs = golden_["inputs"].get<std::vector<float>>();
    const auto labels = golden_["labels"].get<std::vector<int64_t>>();
    const auto rows = static_cast<int64_t>(labels.size());
    options.train.dataset = MakeTensorRows(torch::tensor(inputs).view({rows, 6}), torch::tensor(labels));
    options.train.global_train_batch_size = rows;
    if (std::string(GetParam()) == "adamw") {
      options.make_optimizer = DecoupledAdamW(ParamGroupOptions{.lr = 0.02, .weight_decay = 1e-3});
    } else {
      options.make_optimizer = DecoupledSGDW(ParamGroupOptions{.lr = 0.05, .weight_decay = 1e-3}, {.momentum = 0.9});
    }
    options.schedulers.push_back(CosineAnnealing());
    options.max_duration = Time::Batches(26);
    options.load.load_path = load_path;
    options.composer_compat = true;  // its schedules lag by a batch
    AddCallback(options, {Event::kAfterLoss}, [losses](State& state) { losses->push_back(state.loss.item<double>()); });
    return options;
  }
  const nlohmann::json golden_ = nlohmann::json::parse(*ReadFile(Golden("losses.json")));
};

TEST_P(FromPythonComposer, TheLossesGoOnAsComposers) {
  TempDir dir;
  const Outcome imported =
      Import({Golden(absl::StrCat(GetParam(), ".pt")), dir.path(), "--rename", "module.=", "--run-name", GetParam()});
  ASSERT_EQ(imported.code, 0) << imported.err;
  EXPECT_THAT(imported.out, HasSubstr("/ep5-ba6\n"));
  std::vector<double> losses;
  auto trainer = Trainer::Create(Options(dir.path(), &losses));
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  EXPECT_EQ((*trainer)->state().timestamp.batch, 6);
  EXPECT_EQ((*trainer)->state().timestamp.sample, 6 * 24);
  ASSERT_TRUE((*trainer)->Fit().ok());
  const auto expected = golden_["losses"][GetParam()].get<std::vector<double>>();
  ASSERT_EQ(losses.size(), expected.size() - 6);
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i + 6], 1e-6) << i;
}

TEST_P(FromPythonComposer, WithoutItsOptimizerTheyDoNot) {
  TempDir dir;
  const Outcome imported =
      Import({Golden(absl::StrCat(GetParam(), ".pt")), dir.path(), "--rename", "module.=", "--weights-only"});
  ASSERT_EQ(imported.code, 0) << imported.err;
  EXPECT_THAT(imported.out, testing::AllOf(HasSubstr("/ep0-ba0\n"), HasSubstr("load_weights_only: true")));
  std::vector<double> losses;
  TrainerOptions options = Options(dir.path(), &losses);
  options.load.load_weights_only = true;
  auto trainer = Trainer::Create(std::move(options));
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  EXPECT_EQ((*trainer)->state().timestamp.batch, 0);
  ASSERT_TRUE((*trainer)->Fit().ok());
  const auto expected = golden_["losses"][GetParam()].get<std::vector<double>>();
  EXPECT_NEAR(losses[0], expected[6], 1e-6) << "the weights are the same";
  EXPECT_GT(std::abs(losses[2] - expected[8]), 1e-4);
}

TEST_P(FromPythonComposer, ADamagedFileIsRefused) {
  TempDir dir;
  const std::string whole = *ReadFile(Golden(absl::StrCat(GetParam(), ".pt")));
  for (size_t at = 40; at < whole.size(); at += whole.size() / 40) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
    ASSERT_TRUE(AtomicWriteFile(dir.Path("x.pt"), damaged).ok());
    const Outcome imported = Import({dir.Path("x.pt"), dir.Path(absl::StrCat("to", at))});
    if (imported.code == 0) continue;  // a byte of what is not read, as the states of random generators
    EXPECT_THAT(imported.err, HasSubstr("x.pt")) << at;
    EXPECT_FALSE(PathExists(dir.Path(absl::StrCat("to", at)))) << at;
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, FromPythonComposer, testing::Values("adamw", "sgd"));

}  // namespace
}  // namespace composer
