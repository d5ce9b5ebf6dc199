// A small training run for the tests of the loop: 40 samples of 8 features, global batches of 8 (5 per epoch), 2
// epochs, and a perceptron 8-16-4 with AdamW. Data and initial weights come from a counter and not from torch's
// generator, which the ranks of a test, being threads, share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/format/state_dict.h"
#include "tests/support/threads_communicator.h"
#include "trainer/trainer.h"

namespace composer {

// Uniform in [-1, 1): x = (1664525 x + 1013904223) mod 2^32, value (x >> 8) / 2^23 - 1, same as in
// tests/golden/loss_curves.json.
class Draws {
 public:
  explicit Draws(uint32_t start) : x_(start) {}
  float Next() {
    x_ = 1664525u * x_ + 1013904223u;
    return static_cast<float>(x_ >> 8) / 8388608.0F - 1.0F;
  }

 private:
  uint32_t x_;
};

// Returns inputs [B, features] of draws; the target is the position of the largest of the first `classes` features.
std::shared_ptr<const Dataset> MakeRows(int64_t size, int64_t features = 8, int64_t classes = 4,
                                        int64_t tokens_per_sample = 0, uint32_t start = 2);

// Returns a dataset of these rows, [size, *] each.
std::shared_ptr<const Dataset> MakeTensorRows(at::Tensor inputs, at::Tensor targets, int64_t tokens_per_sample = 0);

struct ModelShape {
  bool batch_norm = false;
  double dropout = 0;
  int64_t hidden = 16;
};
// Linear(8, hidden), [BatchNorm], ReLU, [dropout], Linear(hidden, 4), with weights from draws.
std::shared_ptr<Model> MakeTestModel(const ModelShape& shape = {});
void FillParameters(Model& model, float scale = 0.3F);

std::unique_ptr<Optimizer> MakeTestAdamW(Model& model, double lr = 0.01);

TrainerOptions SmallRun(const ModelShape& shape = {});

// Calls fn at each of these events.
class OnEvent final : public Callback {
 public:
  using Fn = std::function<absl::Status(Event, State&)>;
  OnEvent(EventSet events, Fn fn, std::string name = "OnEvent")
      : events_(events), fn_(std::move(fn)), name_(std::move(name)) {}
  std::string name() const override { return name_; }
  EventSet events() const override { return events_; }
  absl::Status Run(Event event, State& state, Logger& logger) override { return fn_(event, state); }

 private:
  EventSet events_;
  Fn fn_;
  std::string name_;
};
// Adds an OnEvent whose function cannot fail.
void AddCallback(TrainerOptions& options, EventSet events, std::function<void(State&)> fn);

// Requests a drain once `batch` batches are done.
class DrainAt final : public Supervision {
 public:
  explicit DrainAt(int64_t batch) : batch_(batch) {}
  void OnStarted(const std::string& checkpoint, int64_t batch, int64_t samples) override { done_ = batch; }
  void OnStep(int64_t batch, int64_t samples, double loss, double data_wait) override { done_ = batch; }
  bool DrainRequested() const override { return done_ + 1 >= batch_; }  // asked before the step that is to be the last

 private:
  int64_t batch_;
  int64_t done_ = 0;
};

struct RunResult {
  absl::Status status;
  std::string resumed_from;
  std::vector<double> losses;                               // loss/train/total by step
  std::vector<std::pair<std::string, at::Tensor>> tensors;  // parameters and buffers at the end
  Timestamp timestamp;
  std::vector<std::pair<std::string, double>> eval_results;
  int64_t num_collectives = 0;  // from the return of Create to that of Fit
  int64_t collectives_per_step = 0;
};
// Runs Create and Fit. When Create fails, its status is the result's.
RunResult Train(TrainerOptions options);

// Runs Train on `size` ranks, each a thread with its own options. Returns results by rank.
std::vector<RunResult> TrainOnRanks(int size, const std::function<TrainerOptions(int rank)>& options);

// Returns the largest difference between the tensors of two runs, infinity when the lists differ.
double LargestDifference(const RunResult& a, const RunResult& b);

// Expects that both succeeded, with the same losses and tensors bit for bit.
void ExpectSameBits(const RunResult& a, const RunResult& b);

// Returns the names of the committed checkpoints of a folder, in the order of their steps.
std::vector<std::string> Checkpoints(const std::string& folder);
// Returns the newest checkpoint of a folder, as saved.
StateDict NewestCheckpoint(const std::string& folder);
// Expects that the newest checkpoints of both have tensors of the same names and shapes, equal except for the order of
// sums.
void ExpectSavedAlike(const std::string& folder, const std::string& expected_folder);

}  // namespace composer
