// The process that is about to run a job, and what the job's parts need to know of the rest of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "storage/object_store.h"

namespace composer {

class Communicator;

// A rank, its generation and its terminal.
struct JobPlace {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0, local_world_size = 1;
  int node_rank = 0;
  std::string node_name;  // the variable NODENAME, for the loggers
  int64_t generation = 1;
  int64_t launch = 0;  // number of launches of the run so far, this one included; 0: not counted
  bool stderr_is_terminal = false, stdout_is_terminal = false;  // it understands "\r"
  int terminal_columns = 80;
  std::string terminal;      // the device, when a launcher is in between; "": unknown
  std::string visible_gpus;  // CUDA_VISIBLE_DEVICES
  StoreOpener open_store;    // for places that are URLs
  // Returns whether the job was asked to save and leave; empty: nobody asks.
  std::function<bool()> leaves;
  Communicator* communicator = nullptr;  // of all ranks; outlives what is built. Null means one rank.
};

// What callbacks and loggers may ask about their job; known once its data is open.
struct JobFacts {
  std::string run_name;
  std::string run_folder;
  std::string model_json;  // the key `model`, as JSON
  int64_t global_batch_size = 0;
  int64_t train_samples = 0;
  int64_t eval_samples = 0;  // of the first evaluation
};

}  // namespace composer
