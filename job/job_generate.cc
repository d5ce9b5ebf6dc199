// SPDX-License-Identifier: Apache-2.0
#include "job/job_generate.h"

#include <string>

#include "job/data/generation_rows.h"
#include "job/plugin/job_time.h"
#include "trainer/loop/text_ends.h"

namespace composer {
namespace {

constexpr IntRange kTextCount = {.min = 1, .max = 1 << 20};

GenerateCallback ReadOne(ConfigMap config, uint64_t seed) {
  GenerateCallback callback;
  callback.prompts = config.StringList("prompts", {});
  if (!config.Has("prompts")) config.Reject("prompts", "is required: a list of texts");
  if (config.Has("prompts") && callback.prompts.empty()) config.Reject("prompts", "must have at least one text");
  for (const std::string& prompt : callback.prompts) {
    if (prompt.empty()) config.Reject("prompts", "has an empty text: there must be something to go on from");
  }
  if (!config.Has("interval")) config.Reject("interval", "is required: \"100ba\", \"1ep\", \"0.1dur\"");
  callback.interval = ReadTime(config, "interval", "1ep");
  GenerateOptions& options = callback.options;
  // Null means all prompts, as in Composer.
  if (config.Has("batch_size")) options.batch_size = config.Int("batch_size", 1, kTextCount);
  options.max_new_tokens = config.Int("max_new_tokens", options.max_new_tokens, kTextCount);
  ReadGenerationKwargs(config, seed, options);
  options.summon_full_params = config.Bool("summon_full_params", false);
  options.stop_strings = config.StringList("stop_strings", {});
  callback.chat_template = config.String("chat_template", "");
  callback.system = config.String("system", "");
  if (!callback.system.empty() && callback.chat_template.empty())
    config.Reject("system", "needs chat_template: the template says how a system message is written");
  if (const absl::Status status = ValidateStops(options.stop_strings); !status.ok())
    config.Reject("", status.message());
  return callback;
}

}  // namespace

std::vector<GenerateCallback> ReadGenerate(ConfigMap& root, uint64_t seed) {
  std::vector<GenerateCallback> callbacks;
  for (ConfigMap::Named& entry : root.NamedMaps("callbacks")) {
    if (entry.name == "generate") callbacks.push_back(ReadOne(entry.map, seed));
  }
  return callbacks;
}

}  // namespace composer
