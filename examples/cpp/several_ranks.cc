// A program that trains on several ranks, whichever launcher starts it:
//   composer -n 2 ./several_ranks [run_folder]
//   torchrun --nproc-per-node 2 --no-python ./several_ranks [run_folder]
//   srun -n 2 ./several_ranks [run_folder]
//   mpirun -n 2 -x MASTER_PORT=29600 ./several_ranks [run_folder]
// Alone it is a world of one rank. All of them end with the same loss.
#include <composer/composer.h>
#include <torch/torch.h>

#include <cstdio>
#include <memory>
#include <string>

namespace {

absl::Status Train(composer::Ranks& ranks, const std::string& run_folder) {
  absl::StatusOr<std::shared_ptr<const composer::Dataset>> data =
      composer::MakeGaussianClassification({.size = 512, .features = 16, .classes = 4});
  if (!data.ok()) return data.status();
  torch::manual_seed(7);
  composer::TrainerOptions options;
  options.model = composer::MakeMlp({16, 32, 4});
  options.train.dataset = *data;
  options.train.global_train_batch_size = 32;  // of all ranks together
  options.make_optimizer = composer::DecoupledAdamW(0.02);
  options.max_duration = composer::Time::Epochs(3);
  options.evaluators.push_back({.label = "eval", .dataset = *data, .eval_interval = {}});
  if (!run_folder.empty()) options.save.save_folder = run_folder + "/checkpoints";
  ranks.GiveTo(options);

  auto trainer = composer::Trainer::Create(std::move(options));
  if (!trainer.ok()) return trainer.status();
  if (const absl::Status fitted = (*trainer)->Fit(); !fitted.ok()) return fitted;
  if (const absl::Status evaluated = (*trainer)->Eval(); !evaluated.ok()) return evaluated;
  if (ranks.rank() != 0) return absl::OkStatus();
  std::printf("%d ranks, %lld steps\n", ranks.world_size(),
              static_cast<long long>((*trainer)->state().timestamp.batch));
  for (const auto& [name, value] : (*trainer)->eval_results()) std::printf("%s %.6f\n", name.c_str(), value);
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  auto ranks = composer::InitFromEnvironment();
  absl::Status status = ranks.status();
  if (status.ok()) status = Train(**ranks, argc > 1 ? argv[1] : "");
  if (status.ok()) (*ranks)->Leave();
  if (!status.ok()) std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
