// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/hf/hf_weights.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "checkpoint/format/dtype.h"
#include "checkpoint/tools/weight_files.h"
#include "checkpoint/tools/weight_names.h"
#include "storage/mapped_file.h"

namespace composer {
namespace {

constexpr int64_t kMaxIndexBytes = int64_t{256} << 20;

// Buffers that older versions of transformers wrote; they follow from the configuration.
bool IsDerived(const std::string& name) {
  for (const char* suffix :
       {".position_ids", ".token_type_ids", ".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"}) {
    if (absl::EndsWith(name, suffix)) return true;
  }
  return name == "position_ids";
}

// BERT's first files, converted from TensorFlow.
std::string Modern(const std::string& name) {
  if (absl::EndsWith(name, "LayerNorm.gamma")) return absl::StrCat(name.substr(0, name.size() - 5), "weight");
  if (absl::EndsWith(name, "LayerNorm.beta")) return absl::StrCat(name.substr(0, name.size() - 4), "bias");
  return name;
}

absl::Status AddHeader(const std::string& path, HfWeights& weights) {
  ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  const absl::string_view bytes = file->bytes();
  const auto size = static_cast<int64_t>(bytes.size());
  ASSIGN_OR_RETURN(const int64_t header_bytes, SafetensorsHeaderBytes(bytes.substr(0, 8), size));
  const absl::string_view header = bytes.substr(0, static_cast<size_t>(header_bytes));
  ASSIGN_OR_RETURN(auto entries, ParseSafetensors(header, size));
  uint64_t identity = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char c : header) identity = (identity ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  for (SafetensorsEntry& entry : entries) {
    const auto dtype = DTypeFromName(entry.dtype);
    if (!dtype || !at::isFloatingType(*dtype)) {
      if (IsDerived(entry.name)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("`", entry.name, "` has dtype ", entry.dtype, "; weights must be F64, F32, F16, BF16 or F8"));
    }
    const std::string name = entry.name;
    weights.emplace_back(name, StoredTensor{path, std::move(entry), *dtype, static_cast<int64_t>(identity >> 1)});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> SafetensorsOf(const std::string& folder, const std::string& name) {
  const std::string single = JoinPath(folder, absl::StrCat(name, ".safetensors"));
  const std::string index = absl::StrCat(single, ".index.json");
  if (!PathExists(index)) return std::vector<std::string>{single};
  ASSIGN_OR_RETURN(const std::string text, ReadFile(index, kMaxIndexBytes));
  absl::StatusOr<std::vector<std::string>> files = FilesOfWeightIndex(text);
  if (!files.ok()) return Annotate(files.status(), index);
  for (std::string& file : *files) file = JoinPath(folder, file);
  return files;
}

std::vector<int64_t> ShapeOf(const HfTensor& tensor) {
  if (const auto* stored = std::get_if<StoredTensor>(&tensor)) return stored->entry.shape;
  return std::get<at::Tensor>(tensor).sizes().vec();
}

std::string ListOf(const std::vector<std::string>& names) {
  constexpr size_t kMost = 5;
  std::vector<std::string> shown(names.begin(),
                                 names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMost)));
  std::string text = absl::StrJoin(shown, ", ");
  if (names.size() > kMost) absl::StrAppend(&text, " and ", names.size() - kMost, " more");
  return text;
}

bool StartsWithAny(const std::string& name, const std::vector<std::string>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const std::string& prefix) { return absl::StartsWith(name, prefix); });
}

// The weights by the names that they would have in the model.
using ByName = absl::flat_hash_map<std::string, const HfTensor*>;

class Taker {
 public:
  Taker(Model& model, const HfNames& names) : params_(model.named_parameters()), names_(names) {}

  void Add(const std::string& written, const HfTensor& tensor) {
    const std::string name = Modern(written);
    if (IsDerived(name) || std::find(names_.tied.begin(), names_.tied.end(), name) != names_.tied.end()) {
      if (params_.find(name) == nullptr) return;
    }
    const std::string own = OwnName(name);
    if (!own.empty()) {
      TORCH_CHECK_VALUE(found_.emplace(own, &tensor).second, "model.path: `", own, "` is there twice");
    } else if (!StartsWithAny(name, names_.heads)) {
      unexpected_.push_back(written);
    }
  }

  std::vector<std::string> Take() {
    std::vector<std::string> missing, kept, shapes;
    for (const auto& item : params_) {
      const auto found = found_.find(item.key());
      if (found == found_.end()) {
        const bool is_new = names_.new_heads && StartsWithAny(item.key(), names_.heads);
        (is_new ? kept : missing).push_back(item.key());
      } else if (!Fits(ShapeOf(*found->second), item.value())) {
        shapes.push_back(absl::StrCat(item.key(), " (", absl::StrJoin(ShapeOf(*found->second), "x"), ", the model has ",
                                      absl::StrJoin(item.value().sizes(), "x"), ")"));
      }
    }
    Check(missing, shapes);
    const at::NoGradGuard no_grad;
    for (const auto& item : params_) {
      const auto found = found_.find(item.key());
      if (found == found_.end()) continue;
      const auto* stored = std::get_if<StoredTensor>(found->second);
      Fill(item.value(), stored != nullptr ? StoredValues(*stored) : std::get<at::Tensor>(*found->second));
    }
    return kept;
  }

 private:
  bool Fits(std::vector<int64_t> shape, const at::Tensor& param) const {
    if (names_.own_rows > 0 && !shape.empty() && shape[0] == names_.file_rows && param.dim() > 0 &&
        param.size(0) == names_.own_rows)
      shape[0] = names_.own_rows;
    return shape == param.sizes().vec();
  }
  static void Fill(const at::Tensor& param, const at::Tensor& values) {
    if (values.sizes() == param.sizes()) {
      param.copy_(values);
      return;
    }
    const int64_t rows = values.size(0);
    param.slice(0, 0, rows).copy_(values);
    if (param.dim() == 1) {
      param.slice(0, rows).zero_();
      return;
    }
    param.slice(0, rows).copy_(values.to(at::kFloat).mean(0, /*keepdim=*/true));
  }
  // "": the model has no such parameter.
  std::string OwnName(const std::string& name) const {
    if (params_.find(name) != nullptr) return name;
    const std::string with = absl::StrCat(names_.prefix, name);
    if (params_.find(with) != nullptr) return with;
    const bool has = absl::StartsWith(name, names_.prefix);
    const std::string without = has ? name.substr(names_.prefix.size()) : "";
    return has && params_.find(without) != nullptr ? without : "";
  }
  void Check(const std::vector<std::string>& missing, const std::vector<std::string>& shapes) const {
    TORCH_CHECK_VALUE(missing.empty(), "model.path: missing: ", ListOf(missing),
                      unexpected_.empty() ? "" : absl::StrCat("; unexpected: ", ListOf(unexpected_)).c_str());
    TORCH_CHECK_VALUE(unexpected_.empty(), "model.path: unexpected: ", ListOf(unexpected_));
    TORCH_CHECK_VALUE(shapes.empty(), "model.path: of another shape: ", ListOf(shapes));
  }

  torch::OrderedDict<std::string, at::Tensor> params_;
  const HfNames& names_;
  ByName found_;
  std::vector<std::string> unexpected_;
};

}  // namespace

absl::StatusOr<HfWeights> FindHfWeights(const std::string& folder, const std::string& name) {
  HfWeights weights;
  ASSIGN_OR_RETURN(const std::vector<std::string> files, SafetensorsOf(folder, name));
  if (files.size() == 1 && !PathExists(files[0]) && PathExists(JoinPath(folder, "pytorch_model.bin"))) {
    ASSIGN_OR_RETURN(ImportedWeights read, ReadWeights(JoinPath(folder, "pytorch_model.bin"), ""));
    for (auto& [each, tensor] : read.tensors) {
      if (tensor.is_floating_point() || !IsDerived(each)) weights.emplace_back(each, std::move(tensor));
    }
    return weights;
  }
  for (const std::string& path : files) RETURN_IF_ERROR(Annotate(AddHeader(path, weights), path));
  absl::flat_hash_map<std::string, bool> names;
  for (const auto& [each, tensor] : weights) {
    if (!names.emplace(each, true).second)
      return absl::DataLossError(absl::StrCat(folder, ": `", each, "` is in two files"));
  }
  return weights;
}

std::vector<std::string> TakeHfWeights(Model& model, const HfWeights& weights, const HfNames& names) {
  Taker taker(model, names);
  for (const auto& [name, tensor] : weights) taker.Add(name, tensor);
  return taker.Take();
}

}  // namespace composer
