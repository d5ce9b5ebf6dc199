// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/take_state.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace composer {
namespace {

// The place of a parameter among the groups.
struct Place {
  size_t group, index;
};
using Places = absl::flat_hash_map<const void*, Place>;  // by TensorImpl
using States = absl::flat_hash_map<std::string, at::Tensor>;

Places PlacesOf(const std::vector<ParamGroup>& groups) {
  Places places;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (size_t i = 0; i < groups[g].params.size(); ++i)
      places.emplace(groups[g].params[i].unsafeGetTensorImpl(), Place{g, i});
  }
  return places;
}

bool HasOneForEach(const at::Tensor& state, const ParamGroup& group) {
  return state.dim() == 1 && state.size(0) == static_cast<int64_t>(group.params.size());
}

// Takes the state of the old optimizer.
class Taker {
 public:
  explicit Taker(Optimizer& old) : groups_(old.groups()), places_(PlacesOf(groups_)) {
    for (const auto& [name, tensor] : old.state()) states_.emplace(name, tensor);
  }

  void TakeFor(const at::Tensor& param, const std::string& kind, const at::Tensor& into) const {
    const auto place = places_.find(param.unsafeGetTensorImpl());
    if (place == places_.end()) return;
    Copy(absl::StrCat(groups_[place->second.group].names[place->second.index], kind), into);
  }
  void TakeForGroup(const ParamGroup& group, size_t index, const std::string& kind, const at::Tensor& into) const {
    if (!HasOneForEach(into, group)) return Copy(absl::StrCat("group", index, kind), into);
    for (size_t i = 0; i < group.params.size(); ++i) {
      const auto place = places_.find(group.params[i].unsafeGetTensorImpl());
      if (place == places_.end()) continue;
      const auto old = states_.find(absl::StrCat("group", place->second.group, kind));
      if (old == states_.end() || !HasOneForEach(old->second, groups_[place->second.group])) continue;
      into[static_cast<int64_t>(i)].copy_(old->second[static_cast<int64_t>(place->second.index)]);
    }
  }

 private:
  void Copy(const std::string& name, const at::Tensor& into) const {
    const auto old = states_.find(name);
    if (old != states_.end() && old->second.sizes() == into.sizes()) into.copy_(old->second);
  }

  const std::vector<ParamGroup>& groups_;
  Places places_;
  States states_;
};

}  // namespace

void TakeState(Optimizer& old, Optimizer& made) {
  const at::NoGradGuard no_grad;
  const Taker taker(old);
  const std::vector<ParamGroup>& groups = made.groups();
  absl::flat_hash_map<std::string, at::Tensor> params;
  absl::flat_hash_map<std::string, size_t> indices;
  for (size_t g = 0; g < groups.size(); ++g) {
    indices.emplace(absl::StrCat("group", g), g);
    for (size_t i = 0; i < groups[g].params.size(); ++i) params.emplace(groups[g].names[i], groups[g].params[i]);
  }
  for (const auto& [name, tensor] : made.state()) {
    const size_t slash = std::min(name.rfind('/'), name.size());
    const std::string owner = name.substr(0, slash), kind = name.substr(slash);
    if (const auto param = params.find(owner); param != params.end()) {
      taker.TakeFor(param->second, kind, tensor);
    } else if (const auto group = indices.find(owner); group != indices.end()) {
      taker.TakeForGroup(groups[group->second], group->second, kind, tensor);
    }
  }
}

}  // namespace composer
