// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/reader.h"

#include <fnmatch.h>
#include <torch/torch.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "checkpoint/cleanup.h"
#include "checkpoint/dtype.h"
#include "checkpoint/verify.h"

namespace composer {
namespace {

using TensorsByName = absl::flat_hash_map<std::string, at::Tensor>;

// " missing in the checkpoint: a, b, c (and 4 more);", or "" for none.
std::string Listed(absl::string_view what, const std::vector<std::string>& names) {
  constexpr size_t kShown = 20;
  if (names.empty()) return "";
  const absl::Span<const std::string> shown(names.data(), std::min(names.size(), kShown));
  const std::string more = names.size() > kShown ? absl::StrCat(" (and ", names.size() - kShown, " more)") : "";
  return absl::StrCat(" ", what, ": ", absl::StrJoin(shown, ", "), more, ";");
}

std::string Description(absl::string_view dtype, absl::Span<const int64_t> shape) {
  return absl::StrCat(dtype, "[", absl::StrJoin(shape, ","), "]");
}

absl::Status CheckFits(const Manifest& manifest, const StateDict& into, const LoadSelection& selection) {
  absl::flat_hash_map<absl::string_view, const TensorEntry*> stored;
  for (const TensorEntry& tensor : manifest.tensors) {
    if (!Matches(selection.ignore, tensor.name)) stored[tensor.name] = &tensor;
  }
  std::vector<std::string> missing, unexpected, different;
  for (const auto& [name, tensor] : into.tensors) {
    const auto found = stored.find(name);
    if (found == stored.end()) {
      if (!selection.allow_missing && !Matches(selection.ignore, name)) missing.push_back(name);
      continue;
    }
    const std::string there = Description(found->second->dtype, found->second->shape);
    const std::string here = Description(DTypeName(tensor.scalar_type()), tensor.sizes().vec());
    if (there != here) different.push_back(absl::StrCat(name, " (", there, " there, ", here, " here)"));
    stored.erase(found);
  }
  for (const TensorEntry& tensor : manifest.tensors) {
    if (!selection.allow_unexpected && stored.contains(tensor.name)) unexpected.push_back(tensor.name);
  }
  if (missing.empty() && unexpected.empty() && different.empty()) return absl::OkStatus();
  std::string message =
      absl::StrCat("it does not fit this model and optimizer;", Listed("missing in the checkpoint", missing),
                   Listed("only in the checkpoint", unexpected), Listed("different", different));
  message.pop_back();
  return absl::FailedPreconditionError(message);
}

void CopyBox(const TensorEntry& entry, const Box& box, absl::string_view bytes, const at::Tensor& tensor) {
  at::Tensor target = tensor.detach();
  for (size_t d = 0; d < box.shape.size(); ++d)
    target = target.narrow(static_cast<int64_t>(d), box.offset[d], box.shape[d]);
  // from_blob wants a mutable pointer; copy_ only reads. The bytes may lie unaligned: fine on the machines that torch
  // runs on.
  void* data = const_cast<char*>(bytes.data());
  target.copy_(at::from_blob(data, box.shape, at::TensorOptions(*DTypeFromName(entry.dtype))));
}

absl::Status Load(ObjectStore& store, const std::string& checkpoint, const Manifest& manifest, StateDict* into,
                  const LoadSelection& selection = {}) try {
  TensorsByName targets;
  for (const auto& [name, tensor] : into->tensors) {
    if (!Matches(selection.ignore, name)) targets[name] = tensor;
  }
  const at::NoGradGuard no_grad;
  RETURN_IF_ERROR(
      ReadBoxes(store, checkpoint, manifest,
                [&](const TensorEntry& tensor, const Box& box, absl::string_view bytes, const absl::Status& check) {
                  const auto target = targets.find(tensor.name);
                  if (check.ok() && !bytes.empty() && target != targets.end())
                    CopyBox(tensor, box, bytes, target->second);
                  return check;
                }));
  into->small.clear();
  for (const auto& [key, text] : manifest.small) {
    if (!Matches(selection.ignore, key)) into->small[key] = text;
  }
  return absl::OkStatus();
} catch (const std::exception& error) {  // of torch: out of memory, a device error
  return absl::InternalError(absl::StrCat("cannot load ", store.Location(checkpoint), ": ", error.what()));
}

absl::StatusOr<std::string> ChoiceAsText(ObjectStore& store) {
  ASSIGN_OR_RETURN(const CheckpointChoice choice, FindNewestValid(store));
  const nlohmann::json json = {{"checkpoint", choice.checkpoint}, {"refused", choice.refused}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);  // a reason may quote damaged bytes
}

}  // namespace

absl::StatusOr<CheckpointChoice> FindNewestValid(ObjectStore& store) {
  ASSIGN_OR_RETURN(std::vector<CheckpointName> names, CommittedCheckpoints(store));
  CheckpointChoice choice;
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    const VerifyResult verdict = VerifyCheckpoint(store, name->ToString());
    if (verdict.problems.empty()) {
      choice.checkpoint = name->ToString();
      break;
    }
    choice.refused.push_back(std::string(verdict.problems[0].message()));
  }
  return choice;
}

absl::StatusOr<CheckpointChoice> ChooseCheckpoint(ObjectStore& store, RankExchange& exchange) {
  ASSIGN_OR_RETURN(const std::string received, exchange.Broadcast(exchange.rank() == 0 ? ChoiceAsText(store) : ""));
  const nlohmann::json json = nlohmann::json::parse(received, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InternalError("rank 0's choice of checkpoint is not readable");
  return CheckpointChoice{json.value("checkpoint", ""), json.value("refused", std::vector<std::string>{})};
}

bool Matches(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
  });
}

absl::Status LoadCheckpoint(ObjectStore& store, const std::string& checkpoint, StateDict* into,
                            const LoadSelection& selection) {
  ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(store, checkpoint));
  RETURN_IF_ERROR(
      Annotate(CheckFits(manifest, *into, selection), absl::StrCat("cannot load ", store.Location(checkpoint))));
  return Load(store, checkpoint, manifest, into, selection);
}

absl::StatusOr<StateDict> LoadNewStateDict(ObjectStore& store, const std::string& checkpoint) try {
  ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(store, checkpoint));
  StateDict state;
  for (const TensorEntry& tensor : manifest.tensors) {
    const auto type = DTypeFromName(tensor.dtype);
    if (!type)
      return absl::FailedPreconditionError(absl::StrCat("torch has no dtype ", tensor.dtype, " (", tensor.name, ")"));
    state.tensors.emplace_back(tensor.name, at::empty(tensor.shape, at::TensorOptions(*type)));
  }
  RETURN_IF_ERROR(Load(store, checkpoint, manifest, &state));
  return state;
} catch (const std::exception& error) {
  return absl::InternalError(absl::StrCat("cannot load ", store.Location(checkpoint), ": ", error.what()));
}

}  // namespace composer
