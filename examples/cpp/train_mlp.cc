// A program with its own data (two spirals) and its own model, trained by Composer's trainer.
//   ./train_mlp [run_folder]     saves checkpoints in the folder; when started again, resumes from the newest
#include <composer/composer.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <string>

namespace {

// Sample i lies on arm i % 2. Everything is in memory; Load is called from several threads and only reads.
class Spirals final : public composer::Dataset {
 public:
  explicit Spirals(int64_t size) : points_(torch::empty({size, 2})), arms_(torch::arange(size) % 2) {
    for (int64_t i = 0; i < size; ++i) {
      const double along = static_cast<double>(i) / static_cast<double>(size);
      const double angle = 9 * along + (i % 2 == 0 ? 0 : M_PI);
      points_[i][0] = along * std::cos(angle);
      points_[i][1] = along * std::sin(angle);
    }
  }
  int64_t size() const override { return points_.size(0); }
  composer::Batch Load(absl::Span<const int64_t> indices) const override {
    const at::Tensor rows = torch::tensor(at::IntArrayRef(indices.data(), indices.size()), torch::kInt64);
    composer::Batch batch;
    batch.inputs = points_.index_select(0, rows);
    batch.targets = arms_.index_select(0, rows);
    batch.num_samples = rows.numel();
    return batch;
  }

 private:
  at::Tensor points_, arms_;
};

class Net final : public composer::Model {
 public:
  Net() : in_(2, 64), middle_(64, 64), out_(64, 2) {
    register_module("in", in_);
    register_module("middle", middle_);
    register_module("out", out_);
  }
  composer::Outputs forward(const composer::Batch& batch) override {
    return out_->forward(torch::tanh(middle_->forward(torch::tanh(in_->forward(batch.inputs)))));
  }
  composer::Loss loss(const composer::Outputs& outputs, const composer::Batch& batch) override {
    return torch::nn::functional::cross_entropy(outputs, batch.targets);
  }
  composer::MetricList metrics(bool is_train) const override {
    composer::MetricList metrics;
    metrics.push_back(composer::MakeMulticlassAccuracy());
    return metrics;
  }

 private:
  torch::nn::Linear in_, middle_, out_;
};

absl::Status Train(const std::string& run_folder) {
  torch::manual_seed(7);
  composer::TrainerOptions options;
  options.model = std::make_shared<Net>();
  options.train.dataset = std::make_shared<Spirals>(600);
  options.train.global_train_batch_size = 60;
  options.evaluators.push_back({.label = "eval", .dataset = std::make_shared<Spirals>(251), .eval_interval = {}});
  options.make_optimizer = composer::DecoupledAdamW(0.01);
  options.max_duration = composer::Time::Epochs(60);
  if (!run_folder.empty()) options.save.save_folder = run_folder + "/checkpoints";

  auto trainer = composer::Trainer::Create(std::move(options));
  if (!trainer.ok()) return trainer.status();
  if (const absl::Status fitted = (*trainer)->Fit(); !fitted.ok()) return fitted;
  if (const absl::Status evaluated = (*trainer)->Eval(); !evaluated.ok()) return evaluated;
  std::printf("%lld steps\n", static_cast<long long>((*trainer)->state().timestamp.batch));
  for (const auto& [name, value] : (*trainer)->eval_results()) std::printf("%s %.4f\n", name.c_str(), value);
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Status status = Train(argc > 1 ? argv[1] : "");
  if (!status.ok()) std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
