// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/predict_loop.h"

#include <torch/types.h>

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "trainer/core/model_sharding.h"
#include "trainer/core/torch_status.h"
#include "trainer/loop/autocast.h"

namespace composer {

std::vector<Outputs> RunPredict(const Loader& loader, Prefetcher& batches, bool return_outputs, State& state,
                                Engine& engine) {
  const torch::NoGradGuard no_grad;
  const bool was_training = state.model->is_training();
  state.model->eval();
  const Loader* const dataloader = std::exchange(state.dataloader, &loader);
  const auto restore = absl::MakeCleanup([&] {
    state.dataloader = dataloader;
    state.model->train(was_training);
  });
  state.predict_timestamp = Timestamp();
  std::vector<Outputs> outputs;
  ThrowIfError(engine.Run(Event::kPredictStart));
  for (;;) {
    LoadedBatch loaded = batches.Load(/*epoch=*/0, state.predict_timestamp.sample);
    if (loaded.global_samples == 0) break;
    state.global_samples = loaded.global_samples;
    state.batch = loader.spec().Prepare(std::move(loaded.batch), state.identity.device);
    ThrowIfError(engine.Run(Event::kPredictBatchStart));
    ThrowIfError(engine.Run(Event::kPredictBeforeForward));
    if (state.batch.num_samples > 0) {
      WholeModelScope whole(state.sharding);
      {
        const AutocastScope autocast(state.settings.precision, state.identity.device.type());
        state.outputs = state.model->forward(state.batch);
      }
      whole.End();
    } else if (state.sharding != nullptr) {
      state.sharding->SkipForward();
    }
    ThrowIfError(engine.Run(Event::kPredictAfterForward));
    if (return_outputs && state.batch.num_samples > 0) outputs.push_back(state.outputs.To(at::kCPU));
    state.predict_timestamp.ToNextBatch(loaded.global_samples, state.batch.num_tokens, absl::ZeroDuration());
    ThrowIfError(engine.Run(Event::kPredictBatchEnd));
  }
  ThrowIfError(engine.Run(Event::kPredictEnd));
  state.outputs.reset();
  return outputs;
}

}  // namespace composer
