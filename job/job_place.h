// Who is about to run a job, and what its parts need to know of the rest of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "storage/object_store.h"

namespace composer {

class Communicator;

// Which rank of which generation, and on what terminal.
struct JobPlace {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0, local_world_size = 1;
  int node_rank = 0;
  int64_t generation = 1;
  int64_t launch = 0;  // how often the run was launched, this time included; 0: nobody counts
  bool stderr_is_terminal = false, stdout_is_terminal = false;  // that understands "\r"
  int terminal_columns = 80;
  std::string terminal;                  // the device, where a launcher stands between; "": not known
  std::string visible_gpus;              // CUDA_VISIBLE_DEVICES
  StoreOpener open_store;                // for places that are URLs
  std::function<bool()> leaves;          // whether the job was told to save and leave; empty: nobody tells it
  Communicator* communicator = nullptr;  // of all ranks; outlives what is built. Null: one rank
};

// What callbacks and loggers may ask of the job that they are part of; known once its data are there.
struct JobFacts {
  std::string run_name;
  std::string run_folder;
  std::string model_json;  // the key `model`, as JSON
  int64_t global_batch_size = 0;
  int64_t train_samples = 0;
  int64_t eval_samples = 0;  // of the first evaluation
};

}  // namespace composer
