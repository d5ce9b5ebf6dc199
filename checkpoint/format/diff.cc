// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/diff.h"

#include <torch/types.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/format/json.h"
#include "checkpoint/format/dtype.h"

namespace composer {
namespace {

using nlohmann::json;

std::string Description(const at::Tensor& tensor) {
  return absl::StrCat(DTypeName(tensor.scalar_type()), "[", absl::StrJoin(tensor.sizes(), ","), "]");
}

// Returns "" when every bit is the same.
std::string TensorDifference(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes())
    return absl::StrCat(Description(a), " against ", Description(b));
  const at::Tensor x = a.contiguous(), y = b.contiguous();
  const size_t width = x.element_size();
  const char* p = static_cast<const char*>(x.const_data_ptr());
  const char* q = static_cast<const char*>(y.const_data_ptr());
  if (x.nbytes() == 0 || std::memcmp(p, q, x.nbytes()) == 0) return "";
  int64_t differing = 0;
  for (size_t i = 0; i < x.nbytes(); i += width) differing += std::memcmp(p + i, q + i, width) != 0;
  const at::ScalarType wide = x.is_complex() ? at::kComplexDouble : at::kDouble;
  const double largest = (x.to(wide) - y.to(wide)).abs().max().item<double>();
  return absl::StrCat(differing, " of ", x.numel(), " values differ, by ", largest, " at most");
}

void DiffTensors(const StateDict& a, const StateDict& b, std::vector<std::string>* lines) {
  absl::flat_hash_map<std::string, at::Tensor> rest(b.tensors.begin(), b.tensors.end());
  for (const auto& [name, tensor] : a.tensors) {
    const auto found = rest.find(name);
    if (found == rest.end()) {
      lines->push_back(absl::StrCat("tensor ", name, ": only in the first"));
      continue;
    }
    const std::string difference = TensorDifference(tensor, found->second);
    if (!difference.empty()) lines->push_back(absl::StrCat("tensor ", name, ": ", difference));
    rest.erase(found);
  }
  for (const auto& [name, tensor] : b.tensors) {
    if (rest.contains(name)) lines->push_back(absl::StrCat("tensor ", name, ": only in the second"));
  }
}

std::string Short(const json& value) {
  const std::string text = value.dump();
  return text.size() <= 80 ? text : absl::StrCat(text.substr(0, 80), "… (", text.size(), " bytes)");
}

// Objects are compared member by member, anything else as a whole.
void DiffJson(const std::string& path, const json& a, const json& b, std::vector<std::string>* lines) {
  if (!a.is_object() || !b.is_object()) {
    if (a != b) lines->push_back(absl::StrCat("state ", path, ": ", Short(a), " against ", Short(b)));
    return;
  }
  for (const auto& [key, value] : a.items()) {
    if (IsRunIdentity(key)) continue;
    const std::string here = absl::StrCat(path, path.empty() ? "" : ".", key);
    if (const auto other = b.find(key); other != b.end()) {
      DiffJson(here, value, *other, lines);
    } else {
      lines->push_back(absl::StrCat("state ", here, ": only in the first"));
    }
  }
  for (const auto& [key, value] : b.items()) {
    if (!IsRunIdentity(key) && !a.contains(key)) {
      lines->push_back(absl::StrCat("state ", path, path.empty() ? "" : ".", key, ": only in the second"));
    }
  }
}

json SmallAsJson(const StateDict& state) {
  json object = json::object();
  for (const auto& [key, text] : state.small) object[key] = ParseJson(text);
  return object;
}

}  // namespace

bool IsRunIdentity(absl::string_view member) {
  constexpr absl::string_view kMembers[] = {"run_name",   "run_folder", "save_folder",   "load_path", "saved_at",
                                            "world_size", "hostname",   "configuration", "versions",  "environment"};
  return absl::EndsWith(member, "_wct") ||
         std::find(std::begin(kMembers), std::end(kMembers), member) != std::end(kMembers);
}

std::vector<std::string> DiffStates(const StateDict& a, const StateDict& b) {
  std::vector<std::string> lines;
  DiffTensors(a, b, &lines);
  DiffJson("", SmallAsJson(a), SmallAsJson(b), &lines);
  return lines;
}

}  // namespace composer
