// Logs a table of each evaluation's first samples and of what the model made of them, eval_outputs/<label>, to every
// logger that takes tables, and to tables.jsonl. Its columns are
//
//   sample    the sample's index in its data; with icl_tasks each choice of a question is a sample
//   input     the input as text; "" where it has none (a picture). With log_tokens also `tokens`, its numbers
//   target    the text of the target's tokens; a class; for a choice of a question, its text; the right answers
//   output    the likeliest tokens at those places, as text; the likeliest class; the numbers of an output; or the
//             text that the model has written for a question
//   correct   true, false, or "" where outputs are not chosen among classes
//
// Padding, and targets that do not count, are left out. Rows are in the order of samples on any number of ranks.
// Without a tokenizer, texts are numbers. Composer's takes in-context tasks only; here it is any evaluation. Source:
// mosaicml composer/callbacks/eval_output_logging_callback.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trainer/core/callback.h"
#include "trainer/core/communicator.h"

namespace composer {

class EvalOutputLogging final : public Callback {
 public:
  struct Options {
    int64_t num_samples = 100;  // of each evaluation
    bool log_tokens = false;
  };
  // `communicator` has all ranks and must outlive the callback; null means one rank.
  EvalOutputLogging(const Options& options, Communicator* communicator)
      : options_(options), communicator_(communicator) {}
  std::string name() const override { return "EvalOutputLogging"; }
  EventSet events() const override { return {Event::kEvalStart, Event::kEvalAfterForward, Event::kEvalEnd}; }
  absl::Status Run(Event event, State& state, Logger& logger) override;

 private:
  using Row = std::vector<std::string>;

  void Take(const State& state);
  absl::Status Log(const State& state, Logger& logger);

  Options options_;
  Communicator* communicator_;
  std::map<int64_t, Row> rows_;  // of this rank, by sample
};

}  // namespace composer
