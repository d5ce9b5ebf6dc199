// Trains, saves, loads the weights into a second trainer, continues training that one with other settings, and
// predicts.
//   ./fit_predict FOLDER         for checkpoints and the TensorBoard files
#include <composer/composer.h>
#include <torch/torch.h>

#include <cstdio>
#include <string>

namespace {

using composer::Time, composer::Trainer, composer::TrainerOptions;

// Both datasets have the same class centres, with different samples around them.
std::shared_ptr<const composer::Dataset> Data(int64_t size, uint64_t samples) {
  return composer::MakeGaussianClassification({.size = size, .features = 16, .classes = 4, .sample_seed = samples})
      .value();
}

TrainerOptions Options(const std::string& folder) {
  TrainerOptions options;
  options.run_folder = folder;
  options.model = composer::MakeMlp({16, 32, 4});
  options.train.dataset = Data(512, 1);
  options.train.global_train_batch_size = 32;
  options.evaluators.push_back({.label = "eval", .dataset = Data(101, 2), .eval_interval = Time::Epochs(1)});
  // Biases and norms have no decay; the last layer has its own learning rate.
  composer::ParamGroupOptions groups{.lr = 3e-3, .weight_decay = 1e-2, .no_decay_on_bias_and_norm = true};
  groups.rules.push_back({.pattern = "layers.1.*", .lr = 1e-2});
  options.make_optimizer = composer::AdamW(groups);
  options.schedulers.push_back(composer::CosineAnnealing());
  options.callbacks.push_back(std::make_unique<composer::LRMonitor>());
  options.max_duration = Time::Epochs(3);
  return options;
}

// The first trainer runs 3 epochs with two small microbatches per step, and saves a checkpoint on demand.
absl::StatusOr<std::string> Train(const std::string& folder) {
  TrainerOptions options = Options(folder);
  options.device_train_microbatch_size = 16;
  options.loggers.push_back(std::make_unique<composer::TensorBoardLogger>(
      composer::TensorBoardLogger::Options{.folder = folder + "/tensorboard", .run_name = "first"}));
  auto trainer = Trainer::Create(std::move(options));
  if (!trainer.ok()) return trainer.status();
  if (const absl::Status fitted = (*trainer)->Fit(); !fitted.ok()) return fitted;
  return (*trainer)->SaveCheckpoint(folder + "/checkpoints", /*weights_only=*/true);
}

absl::Status GoOn(const std::string& folder, const std::string& checkpoint) {
  TrainerOptions options = Options(folder);
  options.load = {.load_path = checkpoint, .load_weights_only = true};
  options.precision = composer::Precision::kAmpBf16;
  auto trainer = Trainer::Create(std::move(options));
  if (!trainer.ok()) return trainer.status();
  if (const absl::Status before = (*trainer)->Eval(); !before.ok()) return before;
  for (const auto& [name, value] : (*trainer)->eval_results()) std::printf("loaded %s %.3f\n", name.c_str(), value);
  for (const char* more : {"1ep", "20ba"}) {
    const absl::Status fitted = (*trainer)->Fit({.duration = composer::ParseTime(more).value()});
    if (!fitted.ok()) return fitted;
    std::printf("after %s more: batch %lld\n", more, static_cast<long long>((*trainer)->state().timestamp.batch));
  }
  const auto outputs = (*trainer)->Predict({.dataset = Data(64, 3), .batch_size = 40});
  if (!outputs.ok()) return outputs.status();
  std::printf("%lld predictions, the first is class %lld\n",
              static_cast<long long>(composer::Outputs::Cat(*outputs)->size(0)),
              static_cast<long long>(outputs->front().tensor()[0].argmax().item<int64_t>()));
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "fit_predict_run";
  const absl::StatusOr<std::string> checkpoint = Train(folder);
  const absl::Status status = checkpoint.ok() ? GoOn(folder, *checkpoint) : checkpoint.status();
  if (!status.ok()) std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
