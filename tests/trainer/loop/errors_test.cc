// An error inside a step comes out of Fit as one status that says what failed and where.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/trainer/loop/small_run.h"
#include "trainer/core/block.h"
#include "trainer/core/error_place.h"
#include "trainer/models/classifier.h"

namespace composer {
namespace {

using testing::HasSubstr;

// A linear model whose loss is computed from the row losses by a function.
class LossModel final : public Model {
 public:
  using Reduce = std::function<at::Tensor(const at::Tensor& row_losses)>;
  explicit LossModel(Reduce reduce) : reduce_(std::move(reduce)), layer_(8, 4) {
    register_module("layer", layer_);
    FillParameters(*this);
  }
  Outputs forward(const Batch& batch) override { return layer_(batch.inputs); }
  Loss loss(const Outputs& outputs, const Batch& batch) override {
    return reduce_(at::cross_entropy_loss(outputs, batch.targets, {}, at::Reduction::None));
  }
  MetricList metrics(bool) const override { return {}; }

 private:
  Reduce reduce_;
  torch::nn::Linear layer_;
};

RunResult TrainLoss(LossModel::Reduce reduce) {
  TrainerOptions options = SmallRun();
  options.model = std::make_shared<LossModel>(std::move(reduce));
  return Train(std::move(options));
}

TEST(Errors, ALossThatIsNoScalar) {
  const absl::Status status = TrainLoss([](const at::Tensor& rows) { return rows; }).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("must be a scalar (the mean over the batch), it has shape [8]"));
}

TEST(Errors, ALossOfOneElementOrOfDoublesWorks) {
  const RunResult expected = TrainLoss([](const at::Tensor& rows) { return rows.mean(); });
  const RunResult one_element = TrainLoss([](const at::Tensor& rows) { return rows.mean(0, /*keepdim=*/true); });
  const RunResult doubles = TrainLoss([](const at::Tensor& rows) { return rows.to(at::kDouble).mean(); });
  ASSERT_TRUE(one_element.status.ok()) << one_element.status;
  ASSERT_TRUE(doubles.status.ok()) << doubles.status;
  EXPECT_LT(LargestDifference(expected, one_element), 1e-6);
  EXPECT_LT(LargestDifference(expected, doubles), 1e-5);
}

TEST(Errors, ALossWithoutAGradient) {
  const RunResult result = TrainLoss([](const at::Tensor& rows) { return rows.mean().detach(); });
  EXPECT_FALSE(result.status.ok());
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("does not require grad"));
  EXPECT_THAT(std::string(result.status.message()), testing::Not(HasSubstr("frame #"))) << "no backtrace";
}

TEST(Errors, ANaNIsReportedAsTheLossAndTrainingGoesOn) {
  TrainerOptions options = SmallRun();
  options.model = std::make_shared<LossModel>([](const at::Tensor& rows) { return rows.mean() * std::nan(""); });
  options.on_nan = OnNan::kContinue;
  const RunResult result = Train(std::move(options));
  EXPECT_TRUE(result.status.ok()) << result.status;
  ASSERT_EQ(result.losses.size(), 10u);
  for (const double loss : result.losses) EXPECT_TRUE(std::isnan(loss));
}

TEST(Errors, ANaNOnOneRankReachesAll) {
  const auto results = TrainOnRanks(2, [](int rank) {
    TrainerOptions options = SmallRun();
    options.on_nan = OnNan::kContinue;
    if (rank == 1) {
      AddCallback(options, {Event::kAfterLoss}, [](State& state) {
        if (state.timestamp.batch == 2) state.loss = state.loss * std::nan("");
      });
    }
    return options;
  });
  for (const RunResult& result : results) {
    EXPECT_FALSE(std::isnan(result.losses[1]));
    EXPECT_TRUE(std::isnan(result.losses[2]));
  }
}

TEST(Errors, ACallbackThatFails) {
  for (const Event event : {Event::kInit, Event::kFitStart, Event::kAfterBackward, Event::kBatchEnd, Event::kFitEnd}) {
    TrainerOptions options = SmallRun();
    options.callbacks.push_back(std::make_unique<OnEvent>(
        EventSet{event}, [](Event, State&) { return absl::DataLossError("no more"); }, "Picky"));
    const absl::Status status = Train(std::move(options)).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    for (const std::string& part :
         {std::string("callback Picky at "), std::string(EventName(event)), std::string("no more")}) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    }
  }
}

TEST(Errors, ADatasetThatFails) {
  class Failing final : public Dataset {
   public:
    int64_t size() const override { return 40; }
    Batch Load(absl::Span<const int64_t>) const override { TORCH_CHECK(false, "sample 7: the file is gone"); }
  };
  TrainerOptions options = SmallRun();
  options.train.dataset = std::make_shared<Failing>();
  const absl::Status status = Train(std::move(options)).status;
  EXPECT_FALSE(status.ok());
  for (const char* part : {"sample 7: the file is gone", "train loader, epoch 0, batch 0, samples ", " (8)"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

// Its second layer gets a wrong shape in batch 3 and later.
class FaultyModel final : public Classifier {
 public:
  class Layer final : public Block {
   public:
    explicit Layer(const int* passes) : passes_(passes), weight_(register_parameter("weight", torch::eye(8))) {}
    at::Tensor Compute(const std::vector<at::Tensor>& inputs) override {
      return at::linear(passes_ != nullptr && *passes_ > 2 ? inputs[0].slice(1, 0, 7) : inputs[0], weight_);
    }

   private:
    const int* passes_;
    at::Tensor weight_;
  };
  FaultyModel() {
    torch::nn::ModuleList list;
    layers_ = {std::make_shared<Layer>(nullptr), std::make_shared<Layer>(&passes_)};
    for (const auto& layer : layers_) list->push_back(layer);
    register_module("layers", list);
  }

 protected:
  at::Tensor Logits(const at::Tensor& inputs) override {
    const at::Tensor x = layers_[1]->forward(layers_[0]->forward(inputs));
    passes_ += is_training() ? 1 : 9;
    return x.slice(1, 0, 4);
  }

 private:
  int passes_ = 0;
  std::vector<std::shared_ptr<Layer>> layers_;
};

TEST(Errors, AnErrorOfTheModelHasAPlace) {
  TrainerOptions options = SmallRun();
  options.model = std::make_shared<FaultyModel>();
  options.device_train_microbatch_size = 4;
  std::vector<int64_t> ids;
  AddCallback(options, {Event::kBeforeForward}, [&ids](State& state) { ids = state.batch.sample_ids; });
  const absl::Status status = Train(std::move(options)).status;
  const std::string message(status.message());
  EXPECT_THAT(message, testing::StartsWith("mat1 and mat2 shapes"));
  EXPECT_THAT(message, HasSubstr("\n  in model.layers.1, forward of batch 2 (epoch 0), samples "));
  EXPECT_THAT(message, HasSubstr(absl::StrCat("samples ", absl::StrJoin(ids, ", "), " (4)\n  at ")));
  EXPECT_THAT(message, HasSubstr("\n  at at::native::linear(")) << "the native stack";
  EXPECT_THAT(message, testing::Not(HasSubstr("0x"))) << "the same error has the same text";
}

TEST(Errors, AnErrorOfAnEvaluationHasAPlace) {
  TrainerOptions options = SmallRun();
  options.model = std::make_shared<FaultyModel>();
  EvaluatorOptions eval;
  eval.dataset = MakeRows(8);
  eval.batch_size = 4;
  eval.eval_interval = Time::Batches(2);
  options.evaluators.push_back(eval);
  const std::string message(Train(std::move(options)).status.message());
  EXPECT_THAT(message,
              HasSubstr("\n  in model.layers.1, evaluation eval, its batch 2, after batch 2, samples 4, 5, 6, 7 (4)"));
}

TEST(Errors, AnErrorInBackwardHasAPlace) {
  TrainerOptions options = SmallRun();
  AddCallback(options, {Event::kInit}, [](State& state) {
    state.model->parameters()[0].register_hook(
        [](const at::Tensor& grad) -> at::Tensor { throw std::runtime_error("a hook of mine"); });
  });
  const std::string message(Train(std::move(options)).status.message());
  EXPECT_THAT(message, HasSubstr("a hook of mine"));
  EXPECT_THAT(message, HasSubstr("\n  in model, backward of batch 1 (epoch 0), samples "));
}

TEST(Errors, FramesWithoutAddressesAndNoise) {
  const char* const backtrace =
      "Exception raised from meta at LinearAlgebra.cpp:150 (most recent call first):\n"
      "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x9d (0x7f01 in /usr/lib/libc10.so)\n"
      "frame #1: at::native::addmm(at::Tensor const&) + 0x1d (0x7f02 in /usr/lib/libtorch_cpu.so)\n"
      "frame #2: <unknown function> + 0x11 (0x7f03 in /usr/lib/libtorch_cpu.so)\n"
      "frame #3: mine::Net::forward(composer::Batch const&) + 0x44 (0x5f in /home/me/net.so)\n"
      "frame #4: main + 0x8 (0x55 in ./train)\n"
      "frame #5: __libc_start_main + 0x8 (0x55 in /lib/libc.so.6)\n";
  EXPECT_EQ(FramesOf(backtrace),
            "\n  at at::native::addmm(at::Tensor const&) (libtorch_cpu.so)"
            "\n  at mine::Net::forward(composer::Batch const&) (net.so)\n  at main (train)");
  EXPECT_EQ(FramesOf(""), "");
  EXPECT_EQ(FramesOf("frame #1\nframe #2: \nframe #3: f\n"), "\n  at  ()\n  at f ()");
}

TEST(Errors, BadOptionsAreNamed) {
  struct Case {
    const char* field;
    std::function<void(TrainerOptions&)> change;
  };
  for (const Case& test :
       std::vector<Case>{{"train_dataloader: the dataset is empty", [](auto& o) { o.train.dataset = MakeRows(0); }},
                         {"model: required", [](auto& o) { o.model = nullptr; }},
                         {"global_train_batch_size: required", [](auto& o) { o.train.global_train_batch_size = 0; }},
                         {"global_train_batch_size: -1", [](auto& o) { o.train.global_train_batch_size = -1; }},
                         {"device_train_microbatch_size: -2", [](auto& o) { o.device_train_microbatch_size = -2; }},
                         {"save_num_checkpoints_to_keep: 0", [](auto& o) { o.save.save_num_checkpoints_to_keep = 0; }},
                         {"save_interval: 1iter", [](auto& o) { o.save.save_interval = Time::Iterations(1); }},
                         {"drop_last", [](auto& o) { o.train.drop_last = true, o.train.global_train_batch_size = 64; }},
                         {"eval_dataloader eval: ", [](auto& o) { o.evaluators.emplace_back(); }}}) {
    TrainerOptions options = SmallRun();
    test.change(options);
    const absl::Status status = Train(std::move(options)).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << test.field;
    EXPECT_THAT(std::string(status.message()), HasSubstr(test.field));
  }
}

TEST(Errors, ALoggerThatFailsDoesNotStopTheRun) {
  struct Broken final : LoggerDestination {
    explicit Broken(int* writes) : calls(writes) {}
    std::string name() const override { return "broken"; }
    absl::Status Write(const MetricRecord&) override { return ++*calls, absl::ResourceExhaustedError("disk full"); }
    int* calls;
  };
  struct Counting final : LoggerDestination {
    explicit Counting(int* writes) : calls(writes) {}
    std::string name() const override { return "counting"; }
    absl::Status Write(const MetricRecord& record) override {
      EXPECT_EQ(record.metrics[0].name, "loss/train/total");
      return ++*calls, absl::OkStatus();
    }
    int* calls;
  };
  int broken = 0, counting = 0;
  TrainerOptions options = SmallRun();
  options.loggers.push_back(std::make_unique<Broken>(&broken));
  options.loggers.push_back(std::make_unique<Counting>(&counting));
  testing::internal::CaptureStderr();
  const RunResult result = Train(std::move(options));
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(broken, 10);
  EXPECT_EQ(counting, 10) << "the other one misses nothing";
  EXPECT_THAT(text, HasSubstr("disk full"));
  EXPECT_EQ(text.find("disk full"), text.rfind("disk full")) << "reported once: " << text;
}

TEST(Errors, WhatIsLoggedAtTheEndOfTheRunIsWritten) {
  struct Names final : LoggerDestination {
    explicit Names(std::vector<std::string>* all) : names(all) {}
    std::string name() const override { return "names"; }
    absl::Status Write(const MetricRecord& record) override {
      for (const MetricValue& metric : record.metrics) names->emplace_back(metric.name);
      return absl::OkStatus();
    }
    std::vector<std::string>* names;
  };
  struct Late final : Callback {
    std::string name() const override { return "Late"; }
    EventSet events() const override { return {Event::kFitEnd}; }
    absl::Status Run(Event, State&, Logger& logger) override { return logger.Log("late", 1), absl::OkStatus(); }
  };
  std::vector<std::string> names;
  TrainerOptions options = SmallRun();
  options.loggers.push_back(std::make_unique<Names>(&names));
  options.callbacks.push_back(std::make_unique<Late>());
  EXPECT_TRUE(Train(std::move(options)).status.ok());
  EXPECT_EQ(names.back(), "late");
}

}  // namespace
}  // namespace composer
