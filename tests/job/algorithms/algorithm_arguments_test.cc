// Every argument of every algorithm, as the table of keys (config/keys) has it, with values of every type and at and
// beyond the ends of its range: what the table does not allow is an error that names algorithm and argument, what it
// allows is taken or refused with the algorithm's name, and nothing throws. SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "config/schema.h"
#include "config/value_check.h"
#include "config/yaml.h"
#include "job/job_algorithms.h"
#include "tests/job/algorithms/algorithm_cases.h"
#include "tests/trainer/loop/small_run.h"

namespace composer {
namespace {

using testing::HasSubstr;
using Kind = ValueType::Kind;

// Of each type, whatever the argument's is.
const char* const kValues[] = {
    "0",
    "1",
    "-1",
    "2",
    "7",
    "1000000",
    "9223372036854775807",
    "9223372036854775808",
    "-9e18",
    "0.5",
    "0.999",
    "-0.5",
    "1.0000001",
    "1e-12",
    "1e308",
    ".nan",
    ".inf",
    "-.inf",
    "true",
    "false",
    "text",
    "''",
    "\"\\u0000\"",
    "null",
    "[]",
    "[1]",
    "[text]",
    "[[]]",
    "{}",
    "{a: 1}",
    "1ba",
    "0ba",
    "-1ba",
    "0.3dur",
    "1.5dur",
    "2ep",
    "10sp",
    "3tok",
    "99999999999999999999ba",
    "gelu",
    "all-linear",
};

std::vector<std::string> ValuesFor(const KeyRow& row) {
  std::vector<std::string> values(std::begin(kValues), std::end(kValues));
  for (const ValueType& type : row.types) {
    for (const double end : {type.min, type.max}) {
      if (!std::isfinite(end)) continue;
      const double step = type.kind == Kind::kInt ? 1 : std::max(1e-3, std::abs(end) * 1e-3);
      for (const double value : {end - step, end, end + step}) values.push_back(absl::StrCat(value));
    }
    for (const std::string& word : type.words) values.push_back(word);
  }
  return values;
}

// Arguments that the algorithm takes, with this one in place of its own.
std::string ArgumentsWith(const KeySection& section, const std::string& key, const std::string& value) {
  std::string text = absl::StrCat("{", key, ": ", value);
  for (const KeyRow& row : section.rows) {
    if (!row.required || row.key == key) continue;
    const ValueType& type = row.types[0];
    const bool number = type.kind == Kind::kInt || type.kind == Kind::kNumber;
    absl::StrAppend(&text, ", ", row.key, ": ", number ? "1" : type.words.at(0));
  }
  if (section.name == "lora" && key != "target_modules" && key != "adapter") text += ", target_modules: [fc]";
  return text + "}";
}

struct Read {
  std::string message;
  std::vector<AlgorithmFactory> factories;
};

Read ReadArguments(const std::string& name, const std::string& arguments) {
  const auto document = ParseYaml(absl::StrCat("algorithms: {", name, ": ", arguments, "}"), "job.yaml");
  if (!document.ok()) return {std::string(document.status().message()), {}};
  ConfigReader reader(*document);
  Read read;
  read.factories = ReadAlgorithms(reader.root(), *document, {}, /*composer_compat=*/false);
  read.message = std::string(reader.Finish().message());
  return read;
}

TEST(AlgorithmArguments, EachIsCheckedByTypeAndRange) {
  int arguments = 0, refused = 0, taken = 0;
  for (const std::string& name : BuiltInSchema().Names("algorithm")) {
    const KeySection& section = *BuiltInSchema().Find("algorithm", name);
    for (const KeyRow& row : section.rows) {
      ++arguments;
      for (const std::string& value : ValuesFor(row)) {
        const std::string text = ArgumentsWith(section, row.key, value);
        SCOPED_TRACE(absl::StrCat(name, ": ", text));
        const auto node = ParseYamlValue(value, "value");
        const bool allowed = node.ok() && value != "null" && ValueProblems(*node, row.types).empty();
        const Read read = ReadArguments(name, text);
        if (read.message.empty()) {
          ++taken;
          EXPECT_TRUE(allowed || (value == "null" && !row.required)) << row.type_text;
          ASSERT_EQ(read.factories.size(), 1u);
          EXPECT_NE(read.factories[0](), nullptr);
          continue;
        }
        ++refused;
        if (!node.ok()) continue;  // no YAML
        EXPECT_THAT(read.message, HasSubstr("algorithms"));
        EXPECT_THAT(read.message, HasSubstr(name));
        if (!allowed && value != "null") EXPECT_THAT(read.message, HasSubstr(row.key));
      }
    }
  }
  EXPECT_GT(arguments, 90);
  EXPECT_GT(refused, 1000);
  EXPECT_GT(taken, 500);
}

// Runs with arguments that were drawn: they train, or end with an error that names the algorithm.
void TrainWithDrawnArguments(int draws) {
  std::mt19937 random(17);
  const auto below = [&](size_t count) { return random() % count; };
  int trained = 0, refused = 0;
  for (const AlgorithmCase& one : AlgorithmCases()) {
    const KeySection& section = *BuiltInSchema().Find("algorithm", one.key);
    if (section.rows.empty() || one.name != one.key || one.key == "no_op_model") continue;
    for (int i = 0; i < draws; ++i) {
      const KeyRow& row = section.rows[below(section.rows.size())];
      const std::vector<std::string> values = ValuesFor(row);
      const std::string text = ArgumentsWith(section, row.key, values[below(values.size())]);
      if (!ReadArguments(one.key, text).message.empty()) continue;
      AlgorithmCase drawn = one;
      drawn.arguments = text;
      SCOPED_TRACE(absl::StrCat(one.key, ": ", text));
      for (const Workload workload : {Workload::kPictures, Workload::kGpt}) {
        if (!SuitsAlone(workload, one)) continue;
        TrainerOptions options = CaseRun(workload, {drawn});
        options.max_duration = Time::Batches(4);
        const absl::Status status = Train(std::move(options)).status;
        ++(status.ok() ? trained : refused);
        if (!status.ok()) {
          EXPECT_TRUE(absl::StrContains(status.message(), one.key) ||
                      absl::StrContains(status.message(), MakeCase(one)->name()))
              << status;
        }
        break;
      }
    }
  }
  std::printf("%d runs trained, %d were refused\n", trained, refused);
}

TEST(AlgorithmArguments, RunsWithDrawnOnesTrainOrNameTheAlgorithm) { TrainWithDrawnArguments(2); }

TEST(AlgorithmArguments, DISABLED_RunsWithManyDrawnOnesTrainOrNameTheAlgorithm) { TrainWithDrawnArguments(60); }

}  // namespace
}  // namespace composer
