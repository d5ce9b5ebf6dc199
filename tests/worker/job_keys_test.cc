// Compares the table of keys (config/keys) with what the worker's readers really ask for: every key of every section,
// its type, range and default.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/file.h"
#include "config/scalar.h"
#include "config/schema.h"
#include "config/yaml.h"
#include "job/compat/compile_config.h"
#include "job/job.h"
#include "job/job_metrics.h"
#include "job/job_tokenizer.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using Kind = ValueType::Kind;

constexpr char kModel[] = "model: {name: mlp}\n";
constexpr char kData[] = "train_dataloader: {name: gaussian_classification}\n";
constexpr char kRest[] = "max_duration: 1ep\nglobal_train_batch_size: 8\n";

// Returns a value of the first type that has one.
std::string Sample(const KeyRow& row) {
  const ValueType& type = row.types[0];
  if (!row.fallback.empty() && row.fallback != "{}" && row.fallback != "[]") {
    const bool bare_text = type.kind == Kind::kText && row.fallback[0] != '"';
    return bare_text ? absl::StrCat("\"", row.fallback, "\"") : row.fallback;
  }
  const double least = std::isfinite(type.min) ? type.min : 1;
  switch (type.kind) {
    case Kind::kInt:
    case Kind::kNumber:
      return absl::StrCat(std::max(least, std::min(1.0, type.max)));
    case Kind::kBool:
      return "true";
    case Kind::kChoice:
      return type.words[0];
    case Kind::kTime:
    case Kind::kInterval:
      return "1ep";
    case Kind::kTimes:
      return "[1ep]";
    case Kind::kInts:
    case Kind::kNumbers:
      return "[1]";
    case Kind::kTexts:
      return "[x]";
    case Kind::kText:
      return "x";
    default:
      return "{}";
  }
}

// Returns "{name: adamw, lr: 1e-3, …}", with all keys or with the required ones only.
std::string MapOf(const KeySection& section, bool all, const std::string& name, const KeySection* more = nullptr) {
  std::string text = name.empty() ? "{" : absl::StrCat("{name: ", name, ", ");
  for (const KeySection* part : {&section, more}) {
    for (const KeyRow& row : part == nullptr ? std::vector<KeyRow>() : part->rows) {
      if (all || row.required) absl::StrAppend(&text, row.key, ": ", Sample(row), ", ");
    }
  }
  return text + "}";
}

struct Case {
  std::string path;  // of the section's map
  std::string yaml;  // with @ in place of it
};

// Returns where a section is read. Sections that others include have no place of their own.
Case CaseOf(const KeySection& section) {
  const std::string& name = section.name;
  const auto job = [](absl::string_view model, absl::string_view data, absl::string_view more) {
    return absl::StrCat(model.empty() ? kModel : model, data.empty() ? kData : data, kRest, more, "\n");
  };
  if (section.kind == "model") return {"model", job("model: @\n", "", "")};
  if (section.kind == "dataset") return {"train_dataloader", job("", "train_dataloader: @\n", "")};
  if (section.kind == "optimizer") return {"optimizers", job("", "", "optimizers: @")};
  if (section.kind == "scheduler") return {"schedulers", job("", "", "schedulers: @")};
  if (section.kind == "tokenizer") return {"tokenizer", job("", "", "tokenizer: @")};
  const auto data = [&](absl::string_view key, absl::string_view value) {
    return job("", absl::StrCat("train_dataloader: {name: text, path: x, ", key, ": ", value, "}\n"), "");
  };
  if (section.kind == "collator") return {"train_dataloader.collate", data("collate", "@")};
  if (section.kind == "order") return {"train_dataloader.order", data("order", "@")};
  if (section.kind == "transform")
    return {absl::StrCat("train_dataloader.transforms.", name), data("transforms", absl::StrCat("{", name, ": @}"))};
  if (section.kind == "map" && name == "pack") return {"train_dataloader.pack", data("pack", "@")};
  if (section.kind == "metric")
    return {absl::StrCat("model.eval_metrics.", name),
            job(absl::StrCat("model: {name: torchscript, path: x, eval_metrics: {", name, ": @}}\n"), "", "")};
  if (section.kind != "map")
    return {absl::StrCat(section.kind, "s.", name), job("", "", absl::StrCat(section.kind, "s: {", name, ": @}"))};
  static const auto& kMaps = *new std::map<std::string, Case>{
      {"stream", {"train_dataloader.streams", job("", "train_dataloader: {name: streaming, streams: @}\n", "")}},
      {"eval_loader", {"eval_dataloader", job("", "", "eval_dataloader: @")}},
      {"param_group", {"optimizers.param_groups", job("", "", "optimizers: {name: sgd, param_groups: @}")}},
      {"muon_adamw", {"optimizers.adamw", job("", "", "optimizers: {name: muon, adamw: @}")}},
      {"compile", {"compile_config", job("", "", "compile_config: @")}},
      {"ddp", {"ddp_config", job("", "", "ddp_config: @")}},
      {"parallelism", {"parallelism_config", job("", "", "parallelism_config: @")}},
      {"fsdp", {"parallelism_config.fsdp", job("", "", "parallelism_config: {fsdp: @}")}},
      {"mixed_precision",
       {"parallelism_config.fsdp.mixed_precision", job("", "", "parallelism_config: {fsdp: {mixed_precision: @}}")}},
      {"tensor_parallel", {"parallelism_config.tp", job("", "", "parallelism_config: {tp: @}")}},
      {"profiler", {"profiler", job("", "", "profiler: @")}},
      {"profiler_schedule", {"profiler.schedule", job("", "", "profiler: {schedule: @}")}},
      {"tensorboard_trace_handler",
       {"profiler.tensorboard_trace_handler", job("", "", "profiler: {tensorboard_trace_handler: @}")}},
      {"precision_config", {"precision_config", job("", "", "precision: amp_fp8\nprecision_config: @")}},
      {"save_top_k", {"save_top_k", job("", "", "save_top_k: @")}},
      {"trace_handler", {"profiler.json_trace_handler", job("", "", "profiler: {json_trace_handler: @}")}},
  };
  const auto it = kMaps.find(name);
  return it == kMaps.end() ? Case{} : it->second;
}

class JobKeysTest : public ::testing::Test {
 protected:
  std::vector<ConfigAsk> AsksOf(const std::string& yaml) {
    const std::string path = dir_.Path("job.yaml");
    std::ofstream(path) << yaml;
    std::vector<ConfigAsk> asks;
    JobSource source;
    source.yaml_path = path;
    source.asks = &asks;
    ReadJob(source, Environment()).IgnoreError();  // samples need not be consistent with each other
    EXPECT_FALSE(asks.empty()) << yaml;
    return asks;
  }

  TempDir dir_;
};

bool SameYaml(const std::string& a, const std::string& b) {
  const auto first = ParseYamlValue(a, "a"), second = ParseYamlValue(b, "b");
  // A reader writes its texts without quotes.
  if (!first.ok() || !second.ok() || !first->children.empty() != !second->children.empty())
    return absl::StrReplaceAll(a, {{"\"", ""}}) == absl::StrReplaceAll(b, {{"\"", ""}});
  const auto same = [](const ConfigNode& x, const ConfigNode& y, const auto& self) -> bool {
    if (x.children.size() != y.children.size()) return false;
    for (size_t i = 0; i < x.children.size(); ++i) {
      if (!self(x.children[i], y.children[i], self)) return false;
    }
    const auto m = ParseDoubleScalar(x), n = ParseDoubleScalar(y);
    return m.ok() && n.ok() ? *m == *n : x.scalar == y.scalar;
  };
  return same(*first, *second, same);
}

double Bound(double value) { return std::abs(value) > 9e18 ? std::copysign(INFINITY, value) : value; }

void Compare(const KeyRow& row, const ConfigAsk& ask, const std::string& where) {
  static const auto& kKinds = *new std::map<std::string, std::set<Kind>>{{"int", {Kind::kInt}},
                                                                         {"number", {Kind::kNumber}},
                                                                         {"bool", {Kind::kBool, Kind::kChoice}},
                                                                         {"text", {Kind::kText, Kind::kChoice}},
                                                                         {"choice", {Kind::kChoice, Kind::kText}},
                                                                         {"time", {Kind::kTime, Kind::kInterval}},
                                                                         {"ints", {Kind::kInts}},
                                                                         {"numbers", {Kind::kNumbers}},
                                                                         {"texts", {Kind::kTexts, Kind::kTimes}}};
  if (ask.type.empty()) return;
  const ValueType* type = nullptr;
  for (const ValueType& candidate : row.types) {
    if (kKinds.at(ask.type).count(candidate.kind) > 0) type = &candidate;
  }
  ASSERT_NE(type, nullptr) << where << ": the table says `" << row.type_text << "`, the reader asks for " << ask.type;
  const bool ranged = ask.type == "int" || ask.type == "number" || ask.type == "ints" || ask.type == "numbers";
  if (ranged && row.types.size() == 1) {
    EXPECT_EQ(type->min, Bound(ask.min)) << where;
    EXPECT_EQ(type->max, Bound(ask.max)) << where;
  }
  if (ask.type == "choice" && type->kind == Kind::kChoice)
    EXPECT_EQ(std::set(type->words.begin(), type->words.end()), std::set(ask.words.begin(), ask.words.end())) << where;
  if (row.key == "ignore_index") return;  // its default is the metric's own
  if (!row.fallback.empty() && row.otherwise.empty() && !ask.fallback.empty())
    EXPECT_TRUE(SameYaml(row.fallback, ask.fallback))
        << where << ": the table's default is " << row.fallback << ", the reader's " << ask.fallback;
}

TEST_F(JobKeysTest, TheTableIsWhatTheReadersAskFor) {
  const Schema& schema = BuiltInSchema();
  for (const auto& [id, section] : schema.sections()) {
    const Case place = CaseOf(section);
    if (place.path.empty()) continue;
    const KeySection* more = section.kind == "dataset"       ? schema.Find("map", "train_loader")
                             : section.name == "eval_loader" ? schema.Find("dataset", "gaussian_classification")
                                                             : nullptr;
    const bool named = absl::StrContains("model dataset optimizer scheduler tokenizer collator order", section.kind);
    const std::string name = named ? section.name : section.name == "eval_loader" ? "gaussian_classification" : "";
    std::map<std::string, std::vector<ConfigAsk>> asked;
    for (const bool all : {false, true}) {
      const std::string map = MapOf(section, all, name, more);
      for (ConfigAsk& ask : AsksOf(absl::StrReplaceAll(place.yaml, {{"@", map}}))) {
        if (ask.path == place.path) asked[ask.key].push_back(std::move(ask));
      }
    }
    if (!name.empty()) asked.erase("name");  // which section it is
    for (const KeySection* part : {&section, more}) {
      if (part == nullptr) continue;
      for (const KeyRow& row : part->rows) {
        const std::string where = absl::StrCat("[", id.first, " ", id.second, "] ", row.key);
        const auto it = asked.find(row.key);
        if (it == asked.end() && row.types[0].kind == Kind::kMap) continue;  // read as a whole
        ASSERT_NE(it, asked.end()) << where << ": no reader asks for it";
        for (const ConfigAsk& ask : it->second) Compare(row, ask, where);
        asked.erase(it);
      }
    }
    for (const auto& [key, asks] : asked)
      ADD_FAILURE() << "[" << id.first << " " << id.second << "] has no row for `" << key << "`";
  }
}

TEST_F(JobKeysTest, TheTopIsWhatTheReadersAskFor) {
  const KeySection& top = *BuiltInSchema().Find("map", "job");
  std::string all = absl::StrCat(kModel, kData);
  for (const KeyRow& row : top.rows) {
    const Kind kind = row.types[0].kind;
    const bool plain = kind != Kind::kNamed && kind != Kind::kNamedList && kind != Kind::kMap && kind != Kind::kNames;
    if (plain && row.key != "plugins")
      absl::StrAppend(&all, row.key, ": ", row.key == "run_folder" ? "x" : Sample(row), "\n");
  }
  std::map<std::string, std::vector<ConfigAsk>> asked;
  for (const std::string& yaml : {absl::StrCat(kModel, kData, kRest), all}) {
    for (ConfigAsk& ask : AsksOf(yaml)) {
      if (ask.path.empty()) asked[ask.key].push_back(std::move(ask));
    }
  }
  // These are read before the rest by config/job_identity.h, belong to the launcher, or are read by nobody.
  const std::set<std::string> elsewhere = {"run_name", "run_folder", "max_restarts",
                                           "nproc",    "variables",  "startup_limits"};
  for (const KeyRow& row : top.rows) {
    if (elsewhere.count(row.key) > 0) continue;
    ASSERT_EQ(asked.count(row.key), 1u) << row.key << ": no reader asks for it";
    for (const ConfigAsk& ask : asked[row.key]) Compare(row, ask, row.key);
    asked.erase(row.key);
  }
  for (const auto& [key, asks] : asked) ADD_FAILURE() << "the table has no row for `" << key << "`";
}

// Every name that a reader knows has a section, and vice versa.
TEST_F(JobKeysTest, NamesAreTheSame) {
  const auto expect = [](const char* kind, std::vector<std::string> names) {
    std::sort(names.begin(), names.end());
    EXPECT_EQ(BuiltInSchema().Names(kind), names) << kind;
  };
  expect("model", ModelNames());
  expect("dataset", DatasetNames());
  expect("optimizer", OptimizerNames());
  expect("scheduler", SchedulerNames());
  expect("algorithm", AlgorithmNames());
  expect("callback", CallbackNames());
  expect("logger", LoggerNames());
  expect("metric", MetricReaderNames());
  expect("tokenizer", TokenizerNames());
}

TEST(JobKeys, WhatBelongsToOneDeviceIsRefusedOnTheOther) {
  const TempDir dir;
  const auto status_of = [&](const std::string& yaml) {
    EXPECT_TRUE(AtomicWriteFile(dir.Path("job.yaml"), absl::StrCat(kModel, kData, kRest, yaml)).ok());
    JobSource source;
    source.yaml_path = dir.Path("job.yaml");
    return ReadJob(source, Environment()).status().ToString();
  };
  EXPECT_THAT(status_of("allow_tf32: false\n"), testing::HasSubstr("allow_tf32: false needs device: gpu"));
  EXPECT_EQ(status_of("allow_tf32: false\ndevice: gpu\n"), "OK");
  EXPECT_EQ(status_of("allow_tf32: true\n"), "OK");
  EXPECT_THAT(status_of("cuda_graphs: true\n"), testing::HasSubstr("cuda_graphs: true needs device: gpu"));
  EXPECT_EQ(status_of("cuda_graphs: true\ndevice: gpu\n"), "OK");
  EXPECT_EQ(status_of("cuda_graphs: false\n"), "OK");
  EXPECT_THAT(status_of("cuda_graphs: true\ndevice: gpu\ndebug_collectives: true\n"),
              testing::HasSubstr("debug_collectives: does not go with cuda_graphs"));
  EXPECT_THAT(status_of("attention_backend: cudnn\n"),
              testing::HasSubstr("attention_backend: cudnn needs device: gpu"));
  EXPECT_THAT(status_of("attention_backend: flash\ndevice: gpu\nprecision: fp32\n"),
              testing::HasSubstr("attention_backend: flash needs precision: amp_bf16"));
  EXPECT_THAT(status_of("attention_backend: cudnn\ndevice: gpu\ndeterministic_mode: true\n"),
              testing::HasSubstr("attention_backend: cudnn does not go with deterministic_mode"));
  EXPECT_THAT(status_of("attention_backend: flash2\ndevice: gpu\n"), testing::HasSubstr("efficient"));
  EXPECT_EQ(status_of("attention_backend: cudnn\ndevice: gpu\n"), "OK");
  EXPECT_EQ(status_of("attention_backend: auto\n"), "OK");
  EXPECT_THAT(status_of("profiler: {roofline: true}\ndevice: gpu\n"), testing::HasSubstr("needs device: cpu"));
  EXPECT_EQ(status_of("profiler: {roofline: true}\n"), "OK");
}

TEST(JobKeys, ComposerCompatHasComposersAlgorithmsInItsOrder) {
  const TempDir dir;
  for (const bool compat : {false, true}) {
    const std::string yaml =
        absl::StrCat(kModel, kData, kRest, "algorithms: [mixup]\n", compat ? "composer_compat: true\n" : "");
    ASSERT_TRUE(AtomicWriteFile(dir.Path("job.yaml"), yaml).ok());
    JobSource source;
    source.yaml_path = dir.Path("job.yaml");
    const absl::StatusOr<Job> job = ReadJob(source, Environment());
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->options.engine.algorithm_passes.size(), compat ? 1u : 0u);
    const EventSet events = job->algorithms.at(0)()->events();
    EXPECT_EQ(events.Has(Event::kBatchStart), !compat);
    EXPECT_EQ(events.Has(Event::kBeforeForward), compat);
  }
}

TEST(JobKeys, TheRecipeOfFp8) {
  const TempDir dir;
  const auto read = [&](const std::string& yaml) {
    EXPECT_TRUE(AtomicWriteFile(dir.Path("job.yaml"), absl::StrCat(kModel, kData, kRest, yaml)).ok());
    JobSource source;
    source.yaml_path = dir.Path("job.yaml");
    return ReadJob(source, Environment());
  };
  const absl::StatusOr<Job> plain = read("precision: amp_fp8\n");
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->options.precision, Precision::kAmpFp8);
  EXPECT_EQ(plain->options.precision_config.amax_history_len, 16);
  const absl::StatusOr<Job> job = read(
      "precision: amp_fp8\nprecision_config: {fp8_format: E4M3, amax_history_len: 4, amax_compute_algo: "
      "most_recent, margin: 1, exclude: [a.b]}\n");
  ASSERT_TRUE(job.ok()) << job.status();
  const Fp8Recipe& recipe = job->options.precision_config;
  EXPECT_EQ(recipe.fp8_format, Fp8Format::kE4m3);
  EXPECT_EQ(recipe.scaling, Fp8Scales::kDelayed);
  EXPECT_EQ(recipe.amax_history_len, 4);
  EXPECT_EQ(recipe.amax_compute_algo, Fp8AmaxAlgo::kMostRecent);
  EXPECT_EQ(recipe.margin, 1);
  EXPECT_EQ(recipe.exclude.texts, std::vector<std::string>{"a.b"});
  const auto refusal = [&](const std::string& yaml) { return read(yaml).status().ToString(); };
  EXPECT_THAT(refusal("precision_config: {margin: 1}\n"), testing::HasSubstr("is the recipe of `precision: amp_fp8`"));
  EXPECT_THAT(refusal("precision: amp_fp8\nprecision_config: {scaling: current, amax_history_len: 4}\n"),
              testing::HasSubstr("amax_history_len: needs scaling: delayed"));
  EXPECT_THAT(refusal("precision: amp_fp8\nprecision_config: {fp8_format: E5M2}\n"), testing::HasSubstr("HYBRID"));
}

TEST(JobKeys, ArgumentsOfTorchCompileAreCheckedAndAnswered) {
  const TempDir dir;
  const auto job_of = [&](const std::string& map) {
    const std::string yaml = absl::StrCat(kModel, kData, kRest, "compile_config: ", map, "\n");
    EXPECT_TRUE(AtomicWriteFile(dir.Path("job.yaml"), yaml).ok());
    JobSource source;
    source.yaml_path = dir.Path("job.yaml");
    return ReadJob(source, Environment());
  };
  const std::pair<const char*, const char*> said[] = {
      {"", ""},
      {"{disable: true, mode: reduce-overhead}", ""},
      {"{}", "nothing is compiled"},
      {"{dynamic: true, fullgraph: true, backend: eager}", "nothing is compiled"},
      {"{mode: reduce-overhead}", "`cuda_graphs: true` captures steps"},
      {"{options: {max_autotune: true, epilogue_fusion: false}}", "`options` are Inductor's"},
  };
  for (const auto& [map, text] : said) {
    const absl::StatusOr<Job> job = job_of(map);
    ASSERT_TRUE(job.ok()) << map << job.status();
    const std::string answer = WhatReplacesCompile(job->effective);
    EXPECT_THAT(answer, testing::HasSubstr(text)) << map;
    EXPECT_EQ(answer.empty(), *text == 0) << map << answer;
  }
  const std::pair<const char*, const char*> refused[] = {
      {"{mode: fast}", "compile_config.mode: `fast` is not one of"},
      {"{fullgraf: true}", "compile_config.fullgraf: unknown key"},
      {"{mode: default, options: {a: 1}}", "does not go with `mode`"},
      {"default", "compile_config: expected a map"},
  };
  for (const auto& [map, text] : refused) EXPECT_THAT(job_of(map).status().message(), testing::HasSubstr(text)) << map;
}

}  // namespace
}  // namespace composer
