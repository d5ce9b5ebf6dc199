// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch_files/composer_pickle.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/format/json.h"
#include "base/status_macros.h"
#include "base/time.h"
#include "checkpoint/torch_files/pickle.h"

namespace composer {
namespace {

using Kind = PickleValue::Kind;

constexpr absl::string_view kNumbered =
    " has numbers and not names for its parameters, as before Composer 0.17: load and save it with a newer one, or "
    "import the weights alone (--weights-only)";

const PickleValue* Member(const Pickle& pickle, std::initializer_list<absl::string_view> path) {
  const PickleValue* at = &pickle.root();
  for (const absl::string_view part : path) {
    at = pickle.Find(*at, part);
    if (at == nullptr) return nullptr;
  }
  return at;
}

// Calls visit(name, value) for the members of a dict whose keys are texts; the first error ends it.
template <typename Visit>
absl::Status ForMembers(const Pickle& pickle, const PickleValue& dict, absl::string_view where, const Visit& visit) {
  if (dict.kind != Kind::kDict) return absl::InvalidArgumentError(absl::StrCat(where, " is not a dict"));
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& name = pickle.at(dict.items[i]);
    if (name.kind != Kind::kString) {
      return absl::InvalidArgumentError(absl::StrCat(where, kNumbered));
    }
    RETURN_IF_ERROR(visit(name.text, pickle.at(dict.items[i + 1])));
  }
  return absl::OkStatus();
}

bool AsNumber(const PickleValue& value, double* number) {
  if (value.kind != Kind::kInt && value.kind != Kind::kFloat) return false;
  *number = value.kind == Kind::kInt ? static_cast<double>(value.number) : value.real;
  return std::isfinite(*number);
}

// Reads datetime.timedelta(days, seconds, microseconds).
bool AsSeconds(const Pickle& pickle, const PickleValue& value, double* seconds) {
  constexpr double kUnits[] = {86400, 1, 1e-6};
  if (value.kind != Kind::kCall || !pickle.at(value.items[0]).IsGlobal("datetime.timedelta")) return false;
  const PickleValue& arguments = pickle.at(value.items[1]);
  if (arguments.items.size() > std::size(kUnits)) return false;
  *seconds = 0;
  for (size_t i = 0; i < arguments.items.size(); ++i) {
    double number = 0;
    if (!AsNumber(pickle.at(arguments.items[i]), &number)) return false;
    *seconds += number * kUnits[i];
  }
  return *seconds >= 0 && *seconds < 1e11;
}

// Members that an older Composer did not have keep the value of a run's beginning.
absl::StatusOr<std::string> ReadTimestamp(const Pickle& pickle) {
  const PickleValue* saved = Member(pickle, {"state", "timestamp", "Timestamp"});
  if (saved == nullptr) saved = Member(pickle, {"state", "timestamp"});
  auto json = ParseJson(Timestamp().ToJson());
  for (auto& [name, value] : json.items()) {
    const PickleValue* found = pickle.Find(*saved, name);
    if (found == nullptr) continue;
    double seconds = 0;
    if (value.is_number_integer() && found->kind == Kind::kInt && found->number >= 0) {
      value = found->number;
    } else if (value.is_number_float() && AsSeconds(pickle, *found, &seconds)) {
      value = seconds;
    } else {
      return absl::DataLossError(absl::StrCat("`state/timestamp`: ", name, " is ", pickle.Describe(*found)));
    }
  }
  ASSIGN_OR_RETURN(const Timestamp checked, Timestamp::FromJson(json.dump()));
  return checked.ToJson();
}

absl::Status ReadGroups(const Pickle& pickle, const PickleValue& saved, ComposerState* state) {
  const PickleValue* groups = pickle.Find(saved, "param_groups");
  if (groups == nullptr || groups->kind != Kind::kList)
    return absl::DataLossError("the optimizer's state has no param_groups");
  for (const int item : groups->items) {
    const PickleValue* names = pickle.Find(pickle.at(item), "params");
    if (names == nullptr || names->kind != Kind::kList)
      return absl::DataLossError("a group of the optimizer has no params");
    std::vector<std::string>& group = state->groups.emplace_back();
    for (const int name : names->items) {
      if (pickle.at(name).kind != Kind::kString) {
        return absl::InvalidArgumentError(absl::StrCat("the optimizer's state", kNumbered));
      }
      group.emplace_back(pickle.at(name).text);
    }
  }
  return absl::OkStatus();
}

absl::Status ReadSlots(const Pickle& pickle, const PickleValue& saved, ComposerState* state) {
  const PickleValue* all = pickle.Find(saved, "state");
  if (all == nullptr) return absl::DataLossError("the optimizer has no state");
  return ForMembers(pickle, *all, "the optimizer's state", [&](absl::string_view parameter, const PickleValue& slots) {
    const std::string where = absl::StrCat("the optimizer's state of `", ShownText(parameter), "`");
    return ForMembers(pickle, slots, where, [&](absl::string_view slot, const PickleValue& value) -> absl::Status {
      if (value.kind == Kind::kNone) return absl::OkStatus();
      absl::StatusOr<TorchTensor> tensor = ReadTorchTensor(pickle, value);
      if (!tensor.ok()) return Annotate(tensor.status(), absl::StrCat(where, ": `", ShownText(slot), "`"));
      tensor->name = absl::StrCat("optimizer/", parameter, "/", slot);
      state->slots.push_back({std::string(parameter), std::string(slot), *std::move(tensor)});
      return absl::OkStatus();
    });
  });
}

absl::Status ReadOptimizer(const Pickle& pickle, ComposerState* state) {
  const PickleValue* optimizers = Member(pickle, {"state", "optimizers"});
  if (optimizers == nullptr) return absl::OkStatus();
  return ForMembers(pickle, *optimizers, "`state/optimizers`", [&](absl::string_view name, const PickleValue& saved) {
    if (!state->optimizer.empty()) return absl::InvalidArgumentError("it has several optimizers; one is supported");
    state->optimizer = ShownText(name);
    RETURN_IF_ERROR(ReadGroups(pickle, saved, state));
    return ReadSlots(pickle, saved, state);
  });
}

void ReadScaler(const Pickle& pickle, ComposerState* state) {
  const PickleValue* scalers = Member(pickle, {"state", "scaler"});
  if (scalers == nullptr || scalers->kind != Kind::kDict || scalers->items.size() < 2) return;
  const PickleValue& saved = pickle.at(scalers->items[1]);
  const PickleValue* growth = pickle.Find(saved, "_growth_tracker");
  const PickleValue* scale = pickle.Find(saved, "scale");
  double value = 0;
  if (growth == nullptr || scale == nullptr || growth->kind != Kind::kInt || !AsNumber(*scale, &value) || value <= 0)
    return;
  state->scaler = nlohmann::json{{"scale", value}, {"good_steps", growth->number}, {"skipped_steps", 0}}.dump();
}

// An algorithm is saved as (class name, state).
void NoteAlgorithms(const Pickle& pickle, ComposerState* state) {
  const PickleValue* algorithms = Member(pickle, {"state", "algorithms"});
  if (algorithms == nullptr || algorithms->kind != Kind::kList) return;
  for (const int item : algorithms->items) {
    const PickleValue& pair = pickle.at(item);
    if (pair.kind != Kind::kTuple || pair.items.empty()) continue;
    const PickleValue& name = pickle.at(pair.items[0]);
    if (name.kind == Kind::kString)
      state->left_out.push_back(absl::StrCat("the state of the algorithm ", ShownText(name.text)));
  }
}

}  // namespace

absl::StatusOr<std::optional<ComposerState>> ReadComposerPickle(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const Pickle pickle, Pickle::Parse(bytes));
  if (Member(pickle, {"state", "timestamp"}) == nullptr) return std::nullopt;
  ComposerState state;
  ASSIGN_OR_RETURN(state.timestamp, ReadTimestamp(pickle));
  RETURN_IF_ERROR(ReadOptimizer(pickle, &state));
  ReadScaler(pickle, &state);
  NoteAlgorithms(pickle, &state);
  return state;
}

}  // namespace composer
