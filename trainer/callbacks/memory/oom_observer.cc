// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/memory/oom_observer.h"

#include <torch/types.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/log.h"
#include "base/name_template.h"
#include "base/status_macros.h"
#include "trainer/callbacks/memory/memory_pickle.h"
#include "trainer/callbacks/memory/memory_snapshot.h"
#include "trainer/core/logger.h"
#include "trainer/memory/out_of_memory_facts.h"

namespace composer {
namespace {

using Json = nlohmann::ordered_json;

int64_t BytesOf(const at::Tensor& tensor) { return tensor.defined() ? static_cast<int64_t>(tensor.nbytes()) : 0; }

absl::StatusOr<std::string> PathOf(const State& state, const OomReportOptions& options, absl::string_view extension) {
  if (options.folder.empty() && state.identity.run_folder.empty())
    return absl::FailedPreconditionError("oom_observer needs a folder or a run_folder to write to");
  const PlaceholderValues values = PlaceholdersOf(
      {.run_name = state.identity.run_name, .rank = state.identity.rank, .world_size = state.identity.world_size});
  const std::string folder =
      options.folder.empty() ? JoinPath(state.identity.run_folder, "traces") : FillTemplate(options.folder, values);
  RETURN_IF_ERROR(MakeDirs(folder));
  return JoinPath(folder, absl::StrCat(FillTemplate(options.filename, values), extension));
}

Json WhereJson(const State& state, const OutOfMemoryFacts& facts) {
  return {{"rank", state.identity.rank},
          {"world_size", state.identity.world_size},
          {"device", facts.device},
          {"in_evaluation", facts.in_evaluation},
          {"epoch", state.timestamp.epoch},
          {"batch", facts.batch},
          {"samples_at_once", facts.device_batch_size},
          {"device_train_microbatch_size", facts.device_train_microbatch_size},
          {"precision", std::string(PrecisionName(state.settings.precision))}};
}

Json MemoryJson(const OutOfMemoryFacts& facts) {
  Json json = {{"requested_bytes", RequestedBytes(facts.error)},
               {"total_bytes", facts.total_bytes},
               {"free_bytes", facts.free_bytes},
               {"allocated_bytes", facts.allocated_bytes},
               {"peak_bytes", facts.peak_bytes},
               {"reserved_bytes", facts.reserved_bytes}};
  json["processes"] = Json::array();
  for (const MemoryUser& user : facts.users)
    json["processes"].push_back({{"pid", user.pid}, {"name", user.name}, {"bytes", user.bytes}});
  return json;
}

Json TotalsJson(const std::vector<HeldTensor>& held) {
  Json totals = Json::object();
  for (const HeldTensor& item : held) {
    Json& total = totals[item.kind];
    if (total.is_null()) total = {{"tensors", 0}, {"bytes", 0}};
    total["tensors"] = total["tensors"].get<int64_t>() + 1;
    total["bytes"] = total["bytes"].get<int64_t>() + BytesOf(item.tensor);
  }
  return totals;
}

Json LargestJson(std::vector<HeldTensor> held, int count) {
  std::stable_sort(held.begin(), held.end(),
                   [](const HeldTensor& a, const HeldTensor& b) { return BytesOf(a.tensor) > BytesOf(b.tensor); });
  Json largest = Json::array();
  for (size_t i = 0; i < held.size() && i < static_cast<size_t>(std::max(0, count)); ++i) {
    const HeldTensor& item = held[i];
    largest.push_back({{"kind", item.kind},
                       {"name", item.name},
                       {"bytes", BytesOf(item.tensor)},
                       {"shape", item.tensor.sizes().vec()},
                       {"dtype", std::string(c10::toString(item.tensor.scalar_type()))},
                       {"device", item.tensor.device().str()}});
  }
  return largest;
}

}  // namespace

std::vector<HeldTensor> HeldTensors(State& state) {
  std::vector<HeldTensor> held;
  const auto add = [&](const char* kind, const std::string& name, const at::Tensor& tensor) {
    if (tensor.defined()) held.push_back({kind, name, tensor});
  };
  if (state.model != nullptr) {
    for (const auto& item : state.model->named_parameters()) {
      add("parameter", item.key(), item.value());
      add("gradient", item.key(), item.value().grad());
    }
    for (const auto& item : state.model->named_buffers()) add("buffer", item.key(), item.value());
  }
  if (state.optimizer != nullptr) {
    for (const auto& [name, tensor] : state.optimizer->state()) add("optimizer", name, tensor);
  }
  add("batch", "inputs", state.batch.inputs);
  add("batch", "targets", state.batch.targets);
  for (const auto& [name, tensor] : state.batch.extra) add("batch", name, tensor);
  if (!state.outputs.is_named()) add("outputs", "outputs", state.outputs.tensor());
  for (const auto& [name, tensor] : state.outputs.named()) add("outputs", name, tensor);
  return held;
}

absl::StatusOr<std::string> WriteOomReport(State& state, absl::string_view message, const OomReportOptions& options) {
  const OutOfMemoryFacts facts = OutOfMemoryFactsOf(state, message, options.visible_devices);
  const std::vector<HeldTensor> held = HeldTensors(state);
  ASSIGN_OR_RETURN(const std::string path, PathOf(state, options, ".json"));
  const Json report = {{"message", std::string(message)},  {"advice", OutOfMemoryAdvice(facts)},
                       {"where", WhereJson(state, facts)}, {"memory", MemoryJson(facts)},
                       {"totals", TotalsJson(held)},       {"largest", LargestJson(held, options.largest)}};
  RETURN_IF_ERROR(AtomicWriteFile(path, report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"));
  return path;
}

EventSet OOMObserver::events() const {
  if (!options_.record_history) return {};
  return {Event::kFitStart,   Event::kBatchStart,      Event::kBeforeForward,
          Event::kBeforeLoss, Event::kBeforeBackward,  Event::kAfterBackward,
          Event::kBatchEnd,   Event::kAfterTrainBatch, Event::kEvalStart};
}

absl::Status OOMObserver::Run(Event event, State& state, Logger& logger) {
  if (event == Event::kFitStart) {
    recorder_ = std::make_unique<AllocationRecorder>(options_.max_entries);
    const absl::Status started = recorder_->Start();
    if (!started.ok()) LOG(WARNING) << "oom_observer keeps no history: " << started;
  }
  if (const char* phase = PhaseAfter(event); phase != nullptr && recorder_ != nullptr) recorder_->SetPhase(phase);
  return absl::OkStatus();
}

void OOMObserver::OnOutOfMemory(State& state, Logger& logger, absl::string_view message) {
  const absl::StatusOr<std::string> report = WriteOomReport(state, message, options_.report);
  if (report.ok()) {
    LOG(WARNING) << "oom_observer: out of memory; where it was is in " << *report;
    logger.LogFile(absl::StrCat("traces/", BaseName(*report)), *report);
  } else {
    LOG(WARNING) << "oom_observer: no report: " << report.status();
  }
  if (recorder_ == nullptr || !recorder_->running()) return;
  const absl::StatusOr<std::string> path = PathOf(state, options_.report, ".pickle");
  if (!path.ok()) return;
  const absl::Status written = AtomicWriteFile(*path, MemorySnapshotPickle(recorder_->History()));
  if (!written.ok()) LOG(WARNING) << "oom_observer: no history: " << written;
}

void ReportOutOfMemory(State& state, Logger& logger, absl::string_view message) {
  for (const auto& callback : state.callbacks) {
    if (auto* observer = dynamic_cast<OOMObserver*>(callback.get())) observer->OnOutOfMemory(state, logger, message);
  }
}

}  // namespace composer
