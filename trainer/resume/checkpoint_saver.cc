// SPDX-License-Identifier: Apache-2.0
#include "trainer/resume/checkpoint_saver.h"

#include <utility>

#include "trainer/core/torch_status.h"

namespace composer {
CheckpointSaver::CheckpointSaver(const SaveOptions& options, Communicator& communicator,
                                 c10::intrusive_ptr<c10d::Store> store, Supervision& supervision,
                                 std::shared_ptr<SaveThread> thread)
    : checkpoints_(options, communicator, std::move(store), supervision, std::move(thread)),
      at_end_(!options.best_effort) {}

absl::Status CheckpointSaver::Run(Event event, State& state, Logger& logger) {
  return CatchTorch([&]() -> absl::Status {
    if (event == Event::kFitStart) {
      const absl::Status opened = checkpoints_.Open(state);
      return opened.ok() ? checkpoints_.CheckFolder(state) : opened;
    }
    if (event == Event::kFitEnd) {
      if (at_end_) checkpoints_.SaveAtEnd(state);
    } else if (checkpoints_.IsDue(event, state)) {
      checkpoints_.Save(state);
    }
    return absl::OkStatus();
  });
}

}  // namespace composer
