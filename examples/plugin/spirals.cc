// A plugin. It defines names that the job in train.yaml uses like built-in ones.
#include <composer/composer.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <cmath>

namespace {

// Two spirals, with sample i on arm i % 2.
class Spirals final : public composer::Dataset {
 public:
  Spirals(int64_t size, double turns) : size_(size), turns_(turns) {}
  int64_t size() const override { return size_; }
  composer::Batch Load(absl::Span<const int64_t> indices) const override {
    const at::Tensor i = torch::tensor(at::IntArrayRef(indices.data(), indices.size()), torch::kInt64);
    const at::Tensor along = i.to(torch::kFloat) / static_cast<double>(size_);
    const at::Tensor angle = 2 * M_PI * turns_ * along + M_PI * (i % 2);
    composer::Batch batch;
    batch.inputs = along.unsqueeze(1) * torch::stack({torch::cos(angle), torch::sin(angle)}, 1);
    batch.targets = i % 2;
    batch.num_samples = i.numel();
    return batch;
  }

 private:
  int64_t size_;
  double turns_;
};

// Classifier provides the loss and the metrics.
class SpiralNet final : public composer::Classifier {
 public:
  explicit SpiralNet(int64_t width) : in_(2, width), middle_(width, width), out_(width, 2) {
    register_module("in", in_);
    register_module("middle", middle_);
    register_module("out", out_);
  }

 protected:
  at::Tensor Logits(const at::Tensor& inputs) override {
    return out_->forward(torch::tanh(middle_->forward(torch::tanh(in_->forward(inputs)))));
  }

 private:
  torch::nn::Linear in_, middle_, out_;
};

// Logs the norm of all gradients every few batches.
class GradientNorm final : public composer::Callback {
 public:
  explicit GradientNorm(int64_t interval) : interval_(interval) {}
  std::string name() const override { return "GradientNorm"; }
  composer::EventSet events() const override { return {composer::Event::kAfterTrainBatch}; }
  absl::Status Run(composer::Event, composer::State& state, composer::Logger& logger) override {
    if (state.timestamp.batch % interval_ != 0) return absl::OkStatus();
    double sum = 0;
    for (const at::Tensor& parameter : state.model->parameters()) {
      if (parameter.grad().defined()) sum += parameter.grad().pow(2).sum().item<double>();
    }
    logger.Log("gradient_norm", std::sqrt(sum));
    return absl::OkStatus();
  }

 private:
  int64_t interval_;
};

}  // namespace

// Each reader takes its keys and returns a function that builds the object later; the reader itself must not build
// anything.
COMPOSER_PLUGIN(spirals, registry) {
  registry.AddDataset("spirals", [](composer::PluginConfig& config) {
    const int64_t size = config.Int("size", 600, {.min = 2});
    const double turns = config.Double("turns", 1.5, {.min = 0.1, .max = 10});
    return [=] { return std::make_shared<Spirals>(size, turns); };
  });
  registry.AddModel("spiral_net", [](composer::PluginConfig& config) {
    const int64_t width = config.Int("width", 32, {.min = 1, .max = 4096});
    return [=] { return std::make_shared<SpiralNet>(width); };
  });
  registry.AddCallback("gradient_norm", [](composer::PluginConfig& config) {
    const int64_t interval = config.Int("interval", 10, {.min = 1});
    return [=] { return std::make_unique<GradientNorm>(interval); };
  });
}
