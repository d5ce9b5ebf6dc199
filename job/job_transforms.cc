// SPDX-License-Identifier: Apache-2.0
#include "job/job_transforms.h"

#include "job/data/image_rows.h"
#include "job/job_data.h"
#include "job/named_reader.h"
#include "trainer/data/collators.h"
#include "trainer/data/transforms.h"

namespace composer {
namespace {

constexpr int64_t kMaxLength = 1 << 24;

TransformFactory ReadRename(ConfigMap config) {
  const std::string from = config.String("from"), to = config.String("to");
  return [=](const DataContext&) { return MakeRename(from, to); };
}

TransformFactory ReadKeep(ConfigMap config) {
  const std::vector<std::string> keys = config.StringList("keys", {});
  if (keys.empty()) config.Reject("keys", "required");
  return [=](const DataContext&) { return MakeKeep(keys); };
}

TransformFactory ReadLabel(ConfigMap config) {
  const std::string key = config.String("key", "label");
  const std::vector<std::string> classes = config.StringList("classes", {});
  if (classes.empty()) config.Reject("classes", "required");
  return [=](const DataContext&) { return MakeLabel(key, classes); };
}

TransformFactory ReadTokenize(ConfigMap config) {
  TokenizeOptions options;
  options.key = config.String("key", options.key);
  options.to = config.String("to", options.to);
  options.add_special_tokens = config.Bool("add_special_tokens", options.add_special_tokens);
  options.append_eos = config.Bool("append_eos", options.append_eos);
  options.to_length = config.Int("to_length", 0, {.min = 0, .max = kMaxLength});
  if (options.to_length > 0 && options.append_eos)
    config.Reject("append_eos", "cannot be combined with to_length: a text that is cut would lose its end");
  return [=](const DataContext& context) { return MakeTokenize(context.tokenizer, options); };
}

TransformFactory ReadTruncate(ConfigMap config) {
  const int64_t max_length = config.RequiredInt("max_length", {.min = 1, .max = kMaxLength});
  const bool keep_end = config.Bool("keep_end", false);
  return [=](const DataContext&) { return MakeTruncate(max_length, keep_end); };
}

TransformFactory ReadShift(ConfigMap /*config*/) {
  return [](const DataContext&) { return MakeShift(); };
}

TransformFactory ReadPromptResponse(ConfigMap config) {
  const std::string prompt = config.String("prompt_key", "prompt"),
                    response = config.String("response_key", "response");
  return [=](const DataContext& context) { return MakePromptResponse(context.tokenizer, prompt, response); };
}

TransformFactory ReadMask(ConfigMap config) {
  const double probability = config.Double("probability", 0.15, {.min = 0, .max = 1});
  return [=](const DataContext& context) { return MakeMask(context.tokenizer, probability); };
}

TransformFactory ReadRandomCrop(ConfigMap config) {
  const int64_t size = config.RequiredInt("size", {.min = 1, .max = kMaxLength});
  const int64_t padding = config.Int("padding", 0, {.min = 0, .max = kMaxLength});
  return [=](const DataContext&) { return MakeRandomCrop(size, padding); };
}

TransformFactory ReadRandomFlip(ConfigMap config) {
  const double probability = config.Double("probability", 0.5, {.min = 0, .max = 1});
  return [=](const DataContext&) { return MakeRandomFlip(probability); };
}

TransformFactory ReadNormalize(ConfigMap config) {
  const std::vector<double> mean = config.DoubleList("mean", {}), std = config.DoubleList("std", {});
  if (mean.empty()) config.Reject("mean", "required: a number for each channel");
  return [=](const DataContext&) { return MakeNormalize(mean, std); };
}

const std::vector<NamedReader<TransformFactory>>& Transforms() {
  static const auto& rows = *[] {
    auto* all = new std::vector<NamedReader<TransformFactory>>{
        {"keep", ReadKeep},
        {"label", ReadLabel},
        {"mask", ReadMask},
        {"normalize", ReadNormalize},
        {"prompt_response", ReadPromptResponse},
        {"random_crop", ReadRandomCrop},
        {"random_flip", ReadRandomFlip},
        {"rename", ReadRename},
        {"shift", ReadShift},
        {"tokenize", ReadTokenize},
        {"truncate", ReadTruncate},
    };
    for (const TransformRow& row : ImageTransformRows()) all->push_back({row.name, row.read});
    return all;
  }();
  return rows;
}

CollatorFactory ReadStack(ConfigMap /*config*/) {
  return [](const DataContext&) { return std::make_shared<const StackCollator>(); };
}

CollatorFactory ReadPad(ConfigMap config) {
  PadOptions options;
  const int64_t pad_id = config.Int("pad_id", -1, {.min = -1});
  options.to_length = config.Int("to_length", 0, {.min = 0, .max = kMaxLength});
  options.to_multiple_of = config.Int("to_multiple_of", 1, {.min = 1, .max = kMaxLength});
  options.pad_left = config.Choice("side", {"right", "left"}, "right") == "left";
  return [=](const DataContext& context) {
    PadOptions padding = options;
    const auto of_tokenizer = context.tokenizer ? context.tokenizer->special_tokens().pad : std::nullopt;
    padding.pad_id = pad_id >= 0 ? pad_id : of_tokenizer.value_or(0);
    return std::make_shared<const PadCollator>(padding);
  };
}

constexpr NamedReader<CollatorFactory> kCollators[] = {{"pad", ReadPad}, {"stack", ReadStack}};

}  // namespace

std::vector<std::string> TransformNames() { return NamesOf(Transforms()); }
std::vector<std::string> CollatorNames() { return NamesOf(kCollators); }

std::vector<TransformFactory> ReadTransforms(ConfigMap config, const PluginTables& plugins) {
  return ReadNamedMaps<TransformFactory>(config, "transforms", Transforms(), plugins.transforms);
}

CollatorFactory ReadCollator(ConfigMap config, const PluginTables& plugins) {
  ConfigMap collate = config.Map("collate");
  return collate.exists() ? ReadNamed<CollatorFactory>(collate, kCollators, plugins.collators) : nullptr;
}

}  // namespace composer
