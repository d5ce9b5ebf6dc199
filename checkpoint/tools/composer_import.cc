//
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/composer_import.h"

#include <torch/types.h>

#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "base/time.h"
#include "checkpoint/torch_files/composer_pickle.h"
#include "checkpoint/torch_files/packed_file.h"
#include "checkpoint/torch_files/torch_save.h"

namespace composer {
namespace {

struct Family {
  absl::string_view classes;  // between spaces
  std::vector<absl::string_view> slots;
  bool counts_steps;
};

const Family* FamilyOf(absl::string_view optimizer) {
  static const Family kFamilies[] = {
      {" SGD DecoupledSGDW ", {"momentum_buffer"}, false},
      {" Adam AdamW DecoupledAdamW ", {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}, true},
  };
  for (const Family& family : kFamilies) {
    if (absl::StrContains(family.classes, absl::StrCat(" ", optimizer, " "))) return &family;
  }
  return nullptr;
}

using Tensors = absl::flat_hash_map<std::string, at::Tensor>;

// Reads every slot: parameter -> tensor, by slot.
absl::StatusOr<std::map<std::string, Tensors>> ReadSlots(const ComposerState& saved, TorchSave& save) {
  std::map<std::string, Tensors> slots;
  for (const ComposerSlot& slot : saved.slots) {
    ASSIGN_OR_RETURN(slots[slot.slot][slot.parameter], save.Read(slot.tensor));
  }
  return slots;
}

// One number of steps for each parameter of the group, in its order, as AdamGroup keeps them.
absl::StatusOr<at::Tensor> StepsOf(const std::vector<std::string>& group, const Tensors& steps) {
  at::Tensor all = at::zeros({static_cast<int64_t>(group.size())}, at::kFloat);
  for (size_t i = 0; i < group.size(); ++i) {
    const auto found = steps.find(group[i]);
    if (found == steps.end()) continue;
    if (found->second.numel() != 1)
      return absl::DataLossError(absl::StrCat("the optimizer's step of `", Printable(group[i]), "` is not one number"));
    all[static_cast<int64_t>(i)] = found->second.item().toDouble();
  }
  return all;
}

absl::Status AddComposerOptimizer(const ComposerState& saved, TorchSave& save, const Tensors& model,
                                  const std::vector<RenameRule>& rules, StateDict* state) {
  const Family* family = FamilyOf(saved.optimizer);
  if (family == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the state of the optimizer ", saved.optimizer,
                     " is not taken over, only that of SGD, DecoupledSGDW, Adam, AdamW and DecoupledAdamW; "
                     "--weights-only imports the weights"));
  }
  ASSIGN_OR_RETURN(const auto slots, ReadSlots(saved, save));
  const Tensors none;
  const auto of = [&](absl::string_view slot) -> const Tensors& {
    const auto found = slots.find(std::string(slot));
    return found == slots.end() ? none : found->second;
  };
  for (size_t g = 0; g < saved.groups.size(); ++g) {
    for (const std::string& parameter : saved.groups[g]) {
      const auto weight = model.find(parameter);
      if (weight == model.end())
        return absl::DataLossError(absl::StrCat("the optimizer has `", Printable(parameter), "`, the model has not"));
      for (const absl::string_view slot : family->slots) {
        const Tensors& all = of(slot);
        if (all.empty()) continue;  // no momentum, or no amsgrad
        const auto found = all.find(parameter);
        at::Tensor value = found == all.end() ? at::zeros_like(weight->second) : found->second;
        if (value.sizes() != weight->second.sizes())
          return absl::DataLossError(absl::StrCat("`", Printable(parameter), "`: its ", slot, " has another shape"));
        state->tensors.emplace_back(absl::StrCat("optimizer/", Renamed(parameter, rules), "/", slot), std::move(value));
      }
    }
    if (!family->counts_steps) continue;
    ASSIGN_OR_RETURN(at::Tensor steps, StepsOf(saved.groups[g], of("step")));
    state->tensors.emplace_back(absl::StrCat("optimizer/group", g, "/step"), std::move(steps));
  }
  return absl::OkStatus();
}

// Composer's schedules lag by one batch, so that with composer_compat the next step's learning rate is that of the
// start of the last one, which is saved nowhere. Its batches are taken to have had the same size.
Timestamp StartOfLastBatch(const Timestamp& now) {
  Timestamp start = now;
  if (now.batch == 0) return start;
  start.batch -= 1;
  start.sample -= now.sample / now.batch;
  start.token -= now.token / now.batch;
  if (now.batch_in_epoch > 0) {
    start.batch_in_epoch -= 1;
    start.sample_in_epoch -= now.sample_in_epoch / now.batch_in_epoch;
    start.token_in_epoch -= now.token_in_epoch / now.batch_in_epoch;
  } else if (now.epoch > 0) {
    start.epoch -= 1;
    start.batch_in_epoch = now.batch / now.epoch - 1;
  }
  return start;
}

absl::StatusOr<ComposerProgress> Convert(const ComposerState& saved, TorchSave& save, const Tensors& model,
                                         const std::vector<RenameRule>& rules) {
  ComposerProgress progress;
  ASSIGN_OR_RETURN(const Timestamp time, Timestamp::FromJson(saved.timestamp));
  progress.step = CheckpointName{time.epoch, time.batch};
  progress.samples = time.sample;
  progress.notes.reserve(saved.left_out.size());
  for (const std::string& what : saved.left_out) progress.notes.push_back(absl::StrCat(what, " was left out"));
  progress.state.small["timestamp"] = saved.timestamp;
  progress.state.small["lagging"] = StartOfLastBatch(time).ToJson();
  if (!saved.scaler.empty()) progress.state.small["scaler"] = saved.scaler;
  if (!saved.optimizer.empty()) RETURN_IF_ERROR(AddComposerOptimizer(saved, save, model, rules, &progress.state));
  return progress;
}

}  // namespace

absl::StatusOr<std::optional<ComposerProgress>> ReadComposerProgress(
    const std::string& path, absl::Span<const std::pair<std::string, at::Tensor>> model,
    const std::vector<RenameRule>& rules) try {
  const at::NoGradGuard no_grad;
  if (IsDirectory(path)) return std::nullopt;
  ASSIGN_OR_RETURN(auto file, OpenUnpacked(path));
  if (!LooksLikeZip(file->bytes())) return std::nullopt;
  ASSIGN_OR_RETURN(TorchSave save, TorchSave::Open(std::move(file)));
  const absl::StatusOr<std::optional<ComposerState>> saved = ReadComposerPickle(save.pickle());
  if (!saved.ok()) return Annotate(saved.status(), path);
  if (!saved->has_value()) return std::nullopt;
  absl::StatusOr<ComposerProgress> progress = Convert(**saved, save, Tensors(model.begin(), model.end()), rules);
  if (!progress.ok()) return Annotate(progress.status(), path);
  return *std::move(progress);
} catch (const std::exception& error) {  // from torch: out of memory
  return absl::ResourceExhaustedError(absl::StrCat(path, ": ", error.what()));
}

}  // namespace composer
