// SPDX-License-Identifier: Apache-2.0
#include "trainer/resume/saved_state.h"

#include <torch/version.h>

#include <nlohmann/json.hpp>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/format/json.h"
#include "base/status_macros.h"
#include "checkpoint/format/ignored_keys.h"
#include "checkpoint/format/reshard.h"
#include "checkpoint/tools/hf_export.h"
#include "trainer/core/model_sharding.h"
#include "trainer/models/hugging_face_model.h"
#include "trainer/resume/required_algorithms.h"
#include "trainer/resume/saved_environment.h"
#include "trainer/resume/saved_metrics.h"
#include "trainer/resume/saved_optimizer.h"

namespace composer {
namespace {

using SmallState = std::map<std::string, std::string>;

constexpr absl::string_view kAlgorithms = "algorithms/";

// Gives each part a name, so that two callbacks of one class do not collide.
template <typename Parts, typename Visit>
void VisitNamed(absl::string_view prefix, const Parts& parts, const Visit& visit) {
  std::map<std::string, int> seen;
  for (const auto& part : parts) {
    const int copy = seen[part->name()]++;
    visit(copy == 0 ? absl::StrCat(prefix, part->name()) : absl::StrCat(prefix, part->name(), "#", copy + 1), *part);
  }
}

template <typename Parts>
void SaveParts(absl::string_view prefix, const Parts& parts, SmallState& small) {
  VisitNamed(prefix, parts, [&](const std::string& key, const auto& part) {
    if (std::string json = part.SaveState(); !json.empty()) small[key] = std::move(json);
  });
}

template <typename Parts>
absl::Status LoadParts(absl::string_view prefix, const Parts& parts, const std::vector<std::string>& exclude,
                       const SmallState& small) {
  absl::Status status;
  VisitNamed(prefix, parts, [&](const std::string& key, auto& part) {
    const auto it = small.find(key);
    if (it == small.end() || !status.ok() || Matches(exclude, part.name())) return;
    status = Annotate(part.LoadState(it->second), key);
  });
  return status;
}

absl::Status ReadDataSettings(const std::string& text, SavedDataSettings& data) {
  const auto json = ParseJson(text);
  const std::pair<const char*, int64_t*> fields[] = {{"global_train_batch_size", &data.global_train_batch_size},
                                                     {"dataset_size", &data.dataset_size},
                                                     {"seed", &data.seed}};
  for (const auto& [field, value] : fields) {
    if (!json.is_object() || !json.contains(field) || !json[field].is_number_integer())
      return absl::DataLossError(absl::StrCat("the checkpoint's data settings have no ", field));
    *value = json[field].get<int64_t>();
  }
  const auto shards = json.find("virtual_shards");  // older checkpoints have none
  if (shards != json.end() && !shards->is_number_integer())
    return absl::DataLossError("the checkpoint's data settings: virtual_shards is not a number");
  data.virtual_shards = shards == json.end() ? 0 : shards->get<int64_t>();
  data.place.clear();
  const auto place = json.find("place");  // only of a stream that has places
  if (place == json.end()) return absl::OkStatus();
  if (!place->is_string()) return absl::DataLossError("the checkpoint's data settings: place is not a text");
  data.place = place->get<std::string>();
  return absl::OkStatus();
}

absl::Status Freeze(const std::string& text, const Model& model) {
  const auto names = ParseJson(text);
  if (!names.is_array()) return absl::DataLossError("the checkpoint's names of frozen parameters are not a list");
  const auto params = model.named_parameters();
  for (const auto& name : names) {
    const at::Tensor* param = name.is_string() ? params.find(name.get<std::string>()) : nullptr;
    if (param != nullptr) param->set_requires_grad(false);
  }
  return absl::OkStatus();
}

// Adds the parts of `values`, which belong to `box` of a rank's tensor, that lie in one piece in the whole tensor.
void AddShards(const TensorSplit& split, const BoxExtent& box, const at::Tensor& values, std::vector<Shard>& shards) {
  const auto dim = static_cast<size_t>(split.dim);
  for (TensorSplit::Box& part : split.ToWhole(box)) {
    const int64_t begin = part.local.offset[dim] - box.offset[dim];
    shards.push_back({std::move(part.offset), values.narrow(split.dim, begin, part.local.shape[dim])});
  }
}

// `local` is the piece.
ShardedTensor AsSharded(std::string name, const at::Tensor& local, const ModelSharding::Piece& piece) {
  const std::vector<int64_t>& whole = piece.split == nullptr ? piece.shape : piece.split->shape;
  ShardedTensor sharded{std::move(name), whole, local.scalar_type(), {}, piece.writes};
  const at::Tensor flat = local.view(-1);
  int64_t begin = 0;
  for (BoxExtent& box : FlatRangeToBoxes(piece.shape, piece.begin, piece.end)) {
    const int64_t numel = Volume(box.shape);
    const at::Tensor values = flat.narrow(0, begin, numel).view(box.shape);
    begin += numel;
    if (piece.split == nullptr) {
      sharded.shards.push_back({std::move(box.offset), values});
    } else {
      AddShards(*piece.split, box, values, sharded.shards);
    }
  }
  return sharded;
}

struct KeptByAlgorithm {
  std::string key;
  KeptTensor kept;
};

std::vector<KeptByAlgorithm> KeptTensors(const State& state) {
  std::vector<KeptByAlgorithm> all;
  VisitNamed(kAlgorithms, state.algorithms, [&](const std::string& key, const Algorithm& algorithm) {
    for (KeptTensor& kept : algorithm.tensors()) all.push_back({key, std::move(kept)});
  });
  return all;
}

}  // namespace

std::vector<std::string> AlgorithmKeys(const State& state) {
  std::vector<std::string> keys;
  VisitNamed(kAlgorithms, state.algorithms, [&](const std::string& key, const Algorithm&) { keys.push_back(key); });
  return keys;
}

StateDict SavedTensors(const State& state, bool weights_only) {
  StateDict dict;
  std::vector<KeptByAlgorithm> all_kept = KeptTensors(state);
  absl::flat_hash_map<absl::string_view, KeptByAlgorithm*> stand_ins;
  for (KeptByAlgorithm& item : all_kept) {
    if (item.kept.stands_for_model) stand_ins.emplace(item.kept.name, &item);
  }
  // The tensor is sharded like this parameter, if that is sharded.
  const auto add = [&](std::string name, const at::Tensor& tensor, const at::Tensor& param) {
    const ModelSharding::Piece* piece =
        state.sharding == nullptr || !param.defined() ? nullptr : state.sharding->Find(param);
    if (piece == nullptr || tensor.sizes() != param.sizes()) {
      dict.tensors.emplace_back(std::move(name), tensor);
    } else {
      dict.sharded.push_back(AsSharded(std::move(name), tensor, *piece));
    }
  };
  const auto add_model = [&](const std::string& name, at::Tensor tensor, const at::Tensor& param) {
    if (const auto found = stand_ins.find(name); found != stand_ins.end())
      std::swap(tensor, found->second->kept.tensor);
    add(absl::StrCat("model/", name), tensor, param);
  };
  const auto named = state.model->named_parameters();
  absl::flat_hash_map<absl::string_view, at::Tensor> params;
  params.reserve(named.size());
  for (const auto& item : named) {
    params.emplace(item.key(), item.value());
    add_model(item.key(), item.value().detach(), item.value());
  }
  for (const auto& item : state.model->named_buffers()) add_model(item.key(), item.value(), {});
  if (weights_only) return dict;
  for (const KeptByAlgorithm& item : all_kept)
    add(absl::StrCat(item.key, "/", item.kept.name), item.kept.tensor.detach(), item.kept.param);
  for (auto& [name, tensor] : state.optimizer->state()) {
    const auto param = params.find(absl::string_view(name).substr(0, name.rfind('/')));
    add(absl::StrCat("optimizer/", name), tensor, param == params.end() ? at::Tensor() : param->second);
  }
  return dict;
}

SmallState SavedSmallState(const State& state, const SavedDataSettings& data, bool weights_only) {
  SmallState small;
  small["timestamp"] = state.timestamp.ToJson();
  if (state.identity.rank == 0)
    small["versions"] = nlohmann::json{{"composer", COMPOSER_VERSION}, {"libtorch", TORCH_VERSION}}.dump();
  if (state.identity.rank == 0) small["environment"] = SavedEnvironment(state.identity.device);
  if (std::string required = RequiredAlgorithms(state.algorithms); !required.empty() && state.identity.rank == 0)
    small[kRequiredAlgorithmsKey] = std::move(required);
  if (const auto* model = dynamic_cast<const HuggingFaceModel*>(state.model.get());
      model != nullptr && !model->config_json.empty() && state.identity.rank == 0)
    small[kHuggingFaceKey] = nlohmann::json{{"config", model->config_json}, {"folder", model->folder}}.dump(
        -1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
  if (weights_only) return small;
  nlohmann::json settings = {{"global_train_batch_size", data.global_train_batch_size},
                             {"dataset_size", data.dataset_size},
                             {"seed", state.identity.seed},
                             {"virtual_shards", data.virtual_shards}};
  if (!state.data_place.empty()) settings["place"] = state.data_place;
  small["data"] = settings.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
  if (!data.configuration.empty() && state.identity.rank == 0) small[kConfigurationKey] = data.configuration;
  if (state.identity.rank == 0) small["optimizer"] = SavedOptimizer(state);
  if (state.clock.lagging) small["lagging"] = state.clock.lagging->ToJson();
  if (state.settings.scaler) small["scaler"] = state.settings.scaler->SaveState();
  if (std::string json = state.settings.nan.SaveState(); !json.empty()) small["nan"] = std::move(json);
  if (state.settings.auto_microbatch) small["auto_microbatch"] = state.settings.auto_microbatch->SaveState();
  for (size_t i = 0; i < state.schedulers.size(); ++i) {
    if (std::string json = state.schedulers[i]->SaveState(); !json.empty())
      small[absl::StrCat("schedulers/", i)] = std::move(json);
  }
  nlohmann::json frozen = nlohmann::json::array();
  for (const auto& item : state.model->named_parameters()) {
    if (!item.value().requires_grad()) frozen.push_back(item.key());
  }
  if (!frozen.empty() && state.identity.rank == 0) small["frozen"] = frozen.dump();
  SaveParts("callbacks/", state.callbacks, small);
  SaveParts(kAlgorithms, state.algorithms, small);
  return small;
}

absl::Status RestoreSmallState(const SmallState& small, const std::vector<std::string>& exclude_algorithms,
                               State& state, SavedDataSettings& data) {
  const auto restore = [&](const std::string& key, const auto& fn) {
    const auto it = small.find(key);
    return it == small.end() ? absl::OkStatus() : Annotate(fn(it->second), key);
  };
  RETURN_IF_ERROR(restore("timestamp", [&](const std::string& json) -> absl::Status {
    ASSIGN_OR_RETURN(state.timestamp, Timestamp::FromJson(json));
    state.clock.previous_timestamp = state.timestamp;
    return absl::OkStatus();
  }));
  if (state.clock.lagging) {
    RETURN_IF_ERROR(restore("lagging", [&](const std::string& json) -> absl::Status {
      ASSIGN_OR_RETURN(state.clock.lagging, Timestamp::FromJson(json));
      return absl::OkStatus();
    }));
  }
  RETURN_IF_ERROR(restore("data", [&](const std::string& json) { return ReadDataSettings(json, data); }));
  state.data_place = data.place;
  if (state.settings.scaler) {
    RETURN_IF_ERROR(restore("scaler", [&](const std::string& json) { return state.settings.scaler->LoadState(json); }));
  }
  RETURN_IF_ERROR(restore("frozen", [&](const std::string& json) { return Freeze(json, *state.model); }));
  RETURN_IF_ERROR(restore("nan", [&](const std::string& json) { return state.settings.nan.LoadState(json); }));
  if (state.settings.auto_microbatch) {
    RETURN_IF_ERROR(restore("auto_microbatch",
                            [&](const std::string& json) { return state.settings.auto_microbatch->LoadState(json); }));
  }
  for (size_t i = 0; i < state.schedulers.size(); ++i) {
    RETURN_IF_ERROR(restore(absl::StrCat("schedulers/", i),
                            [&](const std::string& json) { return state.schedulers[i]->LoadState(json); }));
  }
  RETURN_IF_ERROR(restore(kMetricsKey, [&](const std::string& json) { return RestoreMetrics(json, state); }));
  RETURN_IF_ERROR(LoadParts("callbacks/", state.callbacks, {}, small));
  return LoadParts(kAlgorithms, state.algorithms, exclude_algorithms, small);
}

}  // namespace composer
