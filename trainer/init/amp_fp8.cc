// SPDX-License-Identifier: Apache-2.0
#include "trainer/init/amp_fp8.h"

#include <ATen/ATen.h>

#include <nlohmann/json.hpp>
#include <typeinfo>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/format/json.h"
#include "base/log.h"
#include "trainer/core/logger.h"
#include "trainer/core/model.h"
#include "trainer/core/state.h"
#include "trainer/layers/fp8_linear.h"
#include "trainer/layers/fp8_product.h"
#include "trainer/layers/replace_layers.h"

namespace composer {
namespace {

using Json = nlohmann::json;
using Modules = absl::flat_hash_set<const torch::nn::Module*>;

absl::StatusOr<Modules> Excluded(const Model& model, const LayerChoice& exclude) {
  Modules excluded;
  if (exclude.empty()) return excluded;
  const absl::StatusOr<NamedModules> chosen = ChooseLayers(model, exclude);
  if (!chosen.ok())
    return absl::InvalidArgumentError(absl::StrCat("precision_config.exclude: ", chosen.status().message()));
  for (const auto& [name, module] : *chosen) {
    for (const auto& part : module->modules()) excluded.insert(part.get());
  }
  return excluded;
}

std::string WhyLeft(const std::string& name, const LinearLayer& linear, const Modules& excluded) {
  if (excluded.contains(&linear)) return "excluded";
  if (name.find('.') == std::string::npos) return "the head";
  return WhyNotFp8(linear);
}

absl::StatusOr<std::vector<std::string>> NamesIn(absl::string_view json, int64_t& steps) {
  const Json saved = ParseJson(json);
  const bool valid = saved.is_object() && saved.contains("layers") && saved["layers"].is_array() &&
                     saved.contains("steps") && saved["steps"].is_number_integer() && saved["steps"] > 0;
  if (!valid) return absl::DataLossError("AmpFp8: not the names of layers and a number of steps");
  steps = saved["steps"];
  std::vector<std::string> names;
  for (const Json& name : saved["layers"]) {
    if (!name.is_string()) return absl::DataLossError("AmpFp8: the name of a layer is not a string");
    names.push_back(name);
  }
  return names;
}

}  // namespace

absl::Status AmpFp8::ChangeModel(Model& model, const ModelContext& context) {
  const absl::StatusOr<Modules> excluded = Excluded(model, recipe_.exclude);
  if (!excluded.ok()) return excluded.status();
  const auto scaling = c10::make_intrusive<Fp8Scaling>(recipe_);
  left_.clear();
  ReplaceLayers(model,
                [&](const std::string& name,
                    const std::shared_ptr<torch::nn::Module>& module) -> std::shared_ptr<torch::nn::Module> {
                  const auto* linear = dynamic_cast<const LinearLayer*>(module.get());
                  if (linear == nullptr || typeid(*linear) != typeid(LinearLayer)) return nullptr;
                  if (const std::string why = WhyLeft(name, *linear, *excluded); !why.empty()) {
                    left_.push_back(absl::StrCat(name, " (", why, ")"));
                    return nullptr;
                  }
                  return std::make_shared<Fp8LinearLayer>(*linear, name, scaling);
                });
  return absl::OkStatus();
}

absl::Status AmpFp8::Start(const State& state, Logger& logger) {
  for (const auto& module : state.model->modules()) {
    if (const auto* layer = dynamic_cast<const Fp8LinearLayer*>(module.get()); layer != nullptr)
      scaling_ = layer->scaling();
  }
  const size_t count = scaling_ == nullptr ? 0 : scaling_->layers().size();
  logger.LogHyperparameters({{"amp_fp8/num_layers", absl::StrCat(count)}});
  if (state.identity.rank == 0) {
    LOG(INFO) << "precision: amp_fp8: " << count << " linear layers compute in 8 bits"
              << (left_.empty() ? "" : absl::StrCat("; in bfloat16 stay ", absl::StrJoin(left_, ", ")));
  }
  if (scaling_ == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("precision: amp_fp8, but ", state.model->name(),
                                                   " has no linear layer that can compute in 8 bits; write amp_bf16"));
  }
  if (const std::string why = WhyNoFp8(state.identity.device); !why.empty())
    return absl::InvalidArgumentError(absl::StrCat("precision: amp_fp8 is not for this device, write amp_bf16: ", why));
  scaling_->Start(state.identity.device);
  return absl::OkStatus();
}

absl::Status AmpFp8::Apply(Event event, State& state, Logger& logger) {
  if (event == Event::kInit) return Start(state, logger);
  if (event == Event::kFitStart) scaling_->SetOn(state.settings.precision == Precision::kAmpFp8);
  if (event == Event::kBatchEnd && scaling_->is_delayed() && scaling_->is_on()) EndStep();
  return absl::OkStatus();
}

void AmpFp8::EndStep() {
  at::Tensor all = scaling_->recorded();
  if (ranks_.world_size() > 1) {
    all = at::empty({ranks_.world_size(), scaling_->recorded().numel()}, scaling_->recorded().options());
    ranks_.StartAllGather(all, scaling_->recorded())->Wait();
    all = all.amax(0);  // NaN if one is
  }
  scaling_->Advance(all);
  has_history_ = true;
}

std::vector<KeptTensor> AmpFp8::tensors() const {
  if (saved_history_.defined()) return {{"amax_history", saved_history_, {}}};
  if (!has_history_) return {};
  return {{"amax_history", scaling_->history(), {}}};
}

std::string AmpFp8::SaveState() const {
  if (!has_history_) return "";
  return Json{{"layers", scaling_->layers()}, {"steps", scaling_->history().size(1)}}.dump();
}

absl::Status AmpFp8::PrepareLoad(absl::string_view json) {
  scaling_->Start(scaling_->history().device());
  has_history_ = false;
  saved_history_.reset();
  if (json.empty()) return absl::OkStatus();
  int64_t steps = 0;
  absl::StatusOr<std::vector<std::string>> names = NamesIn(json, steps);
  if (!names.ok()) return names.status();
  saved_layers_ = *std::move(names);
  saved_history_ =
      at::zeros({kFp8Operands * static_cast<int64_t>(saved_layers_.size()), steps}, scaling_->history().options());
  return absl::OkStatus();
}

absl::Status AmpFp8::LoadState(absl::string_view /*json*/) {
  if (!saved_history_.defined()) return absl::OkStatus();
  has_history_ = scaling_->is_delayed();
  if (has_history_) scaling_->SetHistory(saved_layers_, saved_history_);
  saved_history_.reset();
  return absl::OkStatus();
}

}  // namespace composer
