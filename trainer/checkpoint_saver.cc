// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint_saver.h"

#include <utility>

#include "trainer/torch_status.h"

namespace composer {
namespace {

SaveOptions NeverResuming(SaveOptions options) {
  options.autoresume = false;
  return options;
}

}  // namespace

CheckpointSaver::CheckpointSaver(SaveOptions options, Communicator& communicator, c10::intrusive_ptr<c10d::Store> store,
                                 Supervision& supervision, std::shared_ptr<SaveThread> thread)
    : checkpoints_(NeverResuming(std::move(options)), communicator, std::move(store), supervision, std::move(thread)) {}

absl::Status CheckpointSaver::Run(Event event, State& state, Logger& logger) {
  return CatchTorch([&]() -> absl::Status {
    if (event == Event::kFitStart) {
      SavedDataSettings unused;
      const absl::Status opened = checkpoints_.Resume(state, unused).status();
      return opened.ok() ? checkpoints_.CheckFolder(state) : opened;
    }
    if (event == Event::kFitEnd) {
      checkpoints_.SaveAtEnd(state);
    } else if (checkpoints_.IsDue(event, state)) {
      checkpoints_.Save(state);
    }
    return absl::OkStatus();
  });
}

}  // namespace composer
