// The four ways to extend a run: an algorithm changes it, a callback watches it, a logger destination takes its
// metrics, and a scheduler sets its learning rate.
#include <composer/composer.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace {

using composer::Event, composer::Logger, composer::State;

// Adds noise to the inputs of every training batch, decreasing over the run.
class InputNoise final : public composer::Algorithm {
 public:
  explicit InputNoise(double deviation) : deviation_(deviation) {}
  std::string name() const override { return "InputNoise"; }
  bool Match(Event event, const State&) const override { return event == Event::kAfterDataloader; }
  absl::Status Apply(Event, State& state, Logger& logger) override {
    const double left = 1 - static_cast<double>(state.timestamp.epoch) / state.max_duration.value();
    state.batch.inputs = state.batch.inputs + deviation_ * left * torch::randn_like(state.batch.inputs);
    logger.Log("input_noise/deviation", deviation_ * left);
    return absl::OkStatus();
  }

 private:
  double deviation_;
};

// Stops the run when the loss was low enough for some batches in a row. It receives only kBatchEnd. Its count is saved
// in checkpoints, so that a resumed run stops at the same step.
class StopWhenGood final : public composer::Callback {
 public:
  std::string name() const override { return "StopWhenGood"; }
  composer::EventSet events() const override { return {Event::kBatchEnd}; }
  absl::Status Run(Event, State& state, Logger&) override {
    in_a_row_ = state.step.loss < 0.12 ? in_a_row_ + 1 : 0;
    if (in_a_row_ >= 5) state.StopTraining();
    return absl::OkStatus();
  }
  std::string SaveState() const override { return std::to_string(in_a_row_); }
  absl::Status LoadState(absl::string_view json) override {
    in_a_row_ = std::atoi(std::string(json).c_str());
    return absl::OkStatus();
  }

 private:
  int in_a_row_ = 0;
};

// Prints every tenth record.
class Printer final : public composer::LoggerDestination {
 public:
  std::string name() const override { return "Printer"; }
  absl::Status Write(const composer::MetricRecord& record) override {
    if (record.timestamp.batch % 10 != 0) return absl::OkStatus();
    std::printf("batch %lld", static_cast<long long>(record.timestamp.batch));
    for (const composer::MetricValue& metric : record.metrics) {
      std::printf("  %s %.4g", std::string(metric.name).c_str(), metric.value);
    }
    std::printf("\n");
    return absl::OkStatus();
  }
};

// Rises for the first half of the run and falls for the second.
class Triangle final : public composer::Scheduler {
 public:
  double Factor(const composer::Timestamp& now, const composer::ScheduleContext& context) const override {
    const double batches = context.max_duration.value() * static_cast<double>(context.batches_per_epoch);
    const double x = static_cast<double>(now.batch) / batches;
    return std::max(0.02, 1 - std::abs(2 * x - 1));
  }
};

}  // namespace

int main() {
  composer::TrainerOptions options;
  options.model = composer::MakeMlp({16, 32, 4});
  options.train.dataset = composer::MakeGaussianClassification({.size = 512, .features = 16, .classes = 4}).value();
  options.train.global_train_batch_size = 32;
  options.make_optimizer = composer::DecoupledAdamW(0.02);
  options.max_duration = composer::Time::Epochs(8);
  options.algorithms.push_back(std::make_unique<InputNoise>(0.3));
  options.callbacks.push_back(std::make_unique<StopWhenGood>());
  options.loggers.push_back(std::make_unique<Printer>());
  options.schedulers.push_back(std::make_unique<Triangle>());

  auto trainer = composer::Trainer::Create(std::move(options));
  const absl::Status status = trainer.ok() ? (*trainer)->Fit() : trainer.status();
  if (!status.ok()) std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
