// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/load/reader.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/format/json.h"
#include "base/status_macros.h"
#include "checkpoint/folder/cleanup.h"
#include "checkpoint/folder/verify.h"
#include "checkpoint/format/dtype.h"
#include "checkpoint/load/load_bytes.h"
#include "checkpoint/load/load_targets.h"

namespace composer {
namespace {

// Returns " missing in the checkpoint: a, b, c (and 4 more);", or "" if there are no names.
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

// These are the tensors of the checkpoint that the selection does not ignore, by name; the values are indices into the
// manifest's.
using StoredTensors = absl::flat_hash_map<absl::string_view, size_t>;

StoredTensors Selected(const Manifest& manifest, const LoadSelection& selection) {
  StoredTensors stored;
  stored.reserve(manifest.tensors.size());
  for (size_t i = 0; i < manifest.tensors.size(); ++i) {
    if (!selection.ignore.Has(manifest.tensors[i].name)) stored.emplace(manifest.tensors[i].name, i);
  }
  return stored;
}

// Finds the tensors of a state in the checkpoint and collects the mismatches.
class Fitting {
 public:
  Fitting(const Manifest& manifest, const LoadSelection& selection)
      : manifest_(manifest),
        selection_(selection),
        stored_(Selected(manifest, selection)),
        used_(manifest.tensors.size()) {}

  // Returns the tensor's index in the manifest; nullopt when it is not to be loaded.
  std::optional<size_t> Find(const std::string& name, at::ScalarType dtype, absl::Span<const int64_t> shape) {
    const auto found = stored_.find(name);
    if (found == stored_.end()) {
      if (!selection_.allow_missing && !selection_.ignore.Has(name)) missing_.push_back(name);
      return std::nullopt;
    }
    used_[found->second] = true;
    const TensorEntry& there = manifest_.tensors[found->second];
    if (there.dtype == DTypeName(dtype) && absl::Span<const int64_t>(there.shape) == shape) return found->second;
    different_.push_back(absl::StrCat(name, " (", Description(there.dtype, there.shape), " there, ",
                                      Description(DTypeName(dtype), shape), " here)"));
    return std::nullopt;
  }

  absl::Status Result() const {
    std::vector<std::string> unexpected;
    for (size_t i = 0; i < used_.size() && !selection_.allow_unexpected; ++i) {
      const std::string& name = manifest_.tensors[i].name;
      if (!used_[i] && stored_.contains(name)) unexpected.push_back(name);
    }
    if (missing_.empty() && unexpected.empty() && different_.empty()) return absl::OkStatus();
    std::string message =
        absl::StrCat("it does not fit this model and optimizer;", Listed("missing in the checkpoint", missing_),
                     Listed("only in the checkpoint", unexpected), Listed("different", different_));
    message.pop_back();
    return absl::FailedPreconditionError(message);
  }

 private:
  const Manifest& manifest_;
  const LoadSelection& selection_;
  const StoredTensors stored_;
  std::vector<bool> used_;
  std::vector<std::string> missing_, different_;
};

absl::Span<const int64_t> ShapeOf(const at::Tensor& tensor) { return {tensor.sizes().data(), tensor.sizes().size()}; }

// Adds whole tensors to `whole` and shards to `shards`.
absl::Status FindTargets(const Manifest& manifest, const StateDict& into, const LoadSelection& selection,
                         LoadTargets* whole, LoadTargets* shards) {
  Fitting fitting(manifest, selection);
  for (const auto& [name, tensor] : into.tensors) {
    const auto found = fitting.Find(name, tensor.scalar_type(), ShapeOf(tensor));
    if (found) whole->Add(*found, tensor);
  }
  for (const ShardedTensor& tensor : into.sharded) {
    const auto found = fitting.Find(tensor.name, tensor.dtype, tensor.shape);
    for (const Shard& shard : tensor.shards) {
      RETURN_IF_ERROR(CheckShard(tensor, shard));
      if (found) shards->Add(*found, shard.data, shard.offset);
    }
  }
  return fitting.Result();
}

void TakeSmallState(const Manifest& manifest, const LoadSelection& selection, StateDict* into) {
  into->small.clear();
  for (const auto& [key, text] : manifest.small) {
    if (!selection.ignore.Has(key)) into->small[key] = text;
  }
}

absl::Status Prepare(const PrepareLoading& prepare, const Manifest& manifest, LoadSelection& selection,
                     StateDict* into) {
  return prepare == nullptr ? absl::OkStatus() : prepare(manifest, selection, *into);
}

// Loads the whole state, all ranks together.
absl::Status LoadTogether(ObjectStore& store, const std::string& checkpoint, StateDict* into, LoadSelection selection,
                          ByteExchange& exchange, const PrepareLoading& prepare) {
  ASSIGN_OR_RETURN(const std::string text,
                   BroadcastText(exchange, [&] { return ReadManifestText(store, checkpoint); }));
  const absl::StatusOr<Manifest> manifest = ParseManifestOf(store, checkpoint, text);
  LoadTargets whole, shards;
  absl::Status status = manifest.status();
  if (status.ok()) status = Prepare(prepare, *manifest, selection, into);
  if (status.ok()) {
    status = Annotate(FindTargets(*manifest, *into, selection, &whole, &shards),
                      absl::StrCat("cannot load ", store.Location(checkpoint)));
  }
  RETURN_IF_ERROR(AgreeOn(exchange, status));
  status = ReadTogether(store, checkpoint, *manifest, &whole, exchange);
  if (!into->sharded.empty()) {  // the same on all ranks
    RETURN_IF_ERROR(AgreeOn(exchange, status));
    status = ReadInGroups(store, checkpoint, *manifest, &shards, exchange);
  }
  RETURN_IF_ERROR(AgreeOn(exchange, status));
  TakeSmallState(*manifest, selection, into);
  return absl::OkStatus();
}

absl::Status LoadAlone(ObjectStore& store, const std::string& checkpoint, StateDict* into, LoadSelection selection,
                       const PrepareLoading& prepare) {
  ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(store, checkpoint));
  RETURN_IF_ERROR(Prepare(prepare, manifest, selection, into));
  LoadTargets targets;
  RETURN_IF_ERROR(Annotate(FindTargets(manifest, *into, selection, &targets, &targets),
                           absl::StrCat("cannot load ", store.Location(checkpoint))));
  RETURN_IF_ERROR(ReadAlone(store, checkpoint, manifest, &targets));
  TakeSmallState(manifest, selection, into);
  return absl::OkStatus();
}

// A reason may quote damaged bytes, so this makes it valid UTF-8.
std::string PlainText(absl::string_view text) {
  const nlohmann::json json = std::string(text);
  return ParseJson(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)).get<std::string>();
}

// Taking an older checkpoint would discard, without evidence, what the newer one holds.
absl::Status CannotTell(const absl::Status& why, const std::string& location) {
  return Annotate(why, absl::StrCat("cannot tell whether ", location, " is whole"));
}

std::string FirstReason(const std::vector<std::string>& reasons) {
  const auto found =
      std::find_if(reasons.begin(), reasons.end(), [](const std::string& reason) { return !reason.empty(); });
  return found == reasons.end() ? "" : *found;
}

}  // namespace

absl::StatusOr<CheckpointChoice> FindNewestValid(ObjectStore& store) {
  ASSIGN_OR_RETURN(std::vector<CheckpointName> names, CommittedCheckpoints(store));
  CheckpointChoice choice;
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    const VerifyResult verdict = VerifyCheckpoint(store, name->ToString());
    if (!verdict.unknown.ok()) return CannotTell(verdict.unknown, store.Location(name->ToString()));
    if (verdict.problems.empty()) {
      choice.checkpoint = name->ToString();
      break;
    }
    choice.refused.push_back(std::string(verdict.problems[0].message()));
  }
  return choice;
}

absl::StatusOr<CheckpointChoice> ChooseCheckpoint(ObjectStore& store, RankExchange& exchange, VerifyDepth depth,
                                                  std::optional<CheckpointName> before) {
  const bool leads = exchange.rank() == 0;
  const VerifyShare share{static_cast<size_t>(exchange.rank()), static_cast<size_t>(exchange.world_size())};
  absl::StatusOr<std::vector<CheckpointName>> names = std::vector<CheckpointName>{};  // oldest first, on rank 0 only
  if (leads) names = CommittedCheckpoints(store);
  if (before && names.ok()) std::erase_if(*names, [&](const CheckpointName& name) { return name >= *before; });
  CheckpointChoice choice;
  for (;;) {
    absl::StatusOr<std::string> newest = "";
    if (!names.ok()) {
      newest = names.status();
    } else if (!names->empty()) {
      newest = names->back().ToString();
    }
    ASSIGN_OR_RETURN(const std::string candidate, exchange.Broadcast(std::move(newest)));
    if (candidate.empty()) return choice;
    const VerifyResult verdict = VerifyCheckpoint(store, candidate, share, depth);
    absl::StatusOr<std::string> own = verdict.problems.empty() ? "" : PlainText(verdict.problems[0].message());
    if (!verdict.unknown.ok()) own = CannotTell(verdict.unknown, store.Location(candidate));
    const auto reasons = exchange.Gather(own);
    absl::StatusOr<std::string> first = "";
    if (reasons.ok()) {
      first = FirstReason(*reasons);
    } else {
      first = reasons.status();
    }
    ASSIGN_OR_RETURN(std::string reason, exchange.Broadcast(std::move(first)));
    if (reason.empty()) {
      choice.checkpoint = candidate;
      return choice;
    }
    choice.refused.push_back(std::move(reason));
    if (leads) names->pop_back();
  }
}

absl::Status LoadCheckpoint(ObjectStore& store, const std::string& checkpoint, StateDict* into,
                            const LoadSelection& selection, ByteExchange* exchange, const PrepareLoading& prepare) try {
  const bool together = exchange != nullptr && exchange->world_size() > 1;
  return together ? LoadTogether(store, checkpoint, into, selection, *exchange, prepare)
                  : LoadAlone(store, checkpoint, into, selection, prepare);
} catch (const std::exception& error) {  // out of memory
  return absl::InternalError(absl::StrCat("cannot load ", store.Location(checkpoint), ": ", error.what()));
}

absl::StatusOr<StateDict> LoadNewStateDict(ObjectStore& store, const std::string& checkpoint) try {
  ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(store, checkpoint));
  StateDict state;
  LoadTargets targets;
  for (size_t i = 0; i < manifest.tensors.size(); ++i) {
    const TensorEntry& tensor = manifest.tensors[i];
    const auto type = DTypeFromName(tensor.dtype);
    if (!type)
      return absl::FailedPreconditionError(absl::StrCat("torch has no dtype ", tensor.dtype, " (", tensor.name, ")"));
    state.tensors.emplace_back(tensor.name, at::empty(tensor.shape, at::TensorOptions(*type)));
    targets.Add(i, state.tensors.back().second);
  }
  RETURN_IF_ERROR(ReadAlone(store, checkpoint, manifest, &targets));
  TakeSmallState(manifest, {}, &state);
  return state;
} catch (const std::exception& error) {  // out of memory
  return absl::InternalError(absl::StrCat("cannot load ", store.Location(checkpoint), ": ", error.what()));
}

}  // namespace composer
