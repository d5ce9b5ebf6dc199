// SPDX-License-Identifier: Apache-2.0
#include "data/icl/icl_task.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/format/json.h"
#include "base/status_macros.h"
#include "data/icl/few_shots.h"
#include "data/text/characters.h"
#include "data/text/record_files.h"

namespace composer {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostChoices = 1024;

absl::StatusOr<std::string> TextAt(const Json& line, const char* key, bool strips) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_string())
    return absl::InvalidArgumentError(absl::StrCat("there is no text `", key, "`"));
  const auto& text = found->get_ref<const std::string&>();
  return strips ? std::string(StripText(text)) : text;
}

absl::StatusOr<std::vector<std::string>> ChoicesOf(const Json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_array() || found->empty() || found->size() > kMostChoices)
    return absl::InvalidArgumentError(absl::StrCat("there is no list `", key, "` of 1 to ", kMostChoices, " texts"));
  std::vector<std::string> choices;
  for (const Json& choice : *found) {
    if (!choice.is_string()) return absl::InvalidArgumentError(absl::StrCat("`", key, "` must have texts only"));
    choices.push_back(choice.get<std::string>());
  }
  return choices;
}

// Returns the aliases, or none where the line has no such key.
absl::StatusOr<std::vector<std::string>> AliasesOf(const Json& line) {
  const auto found = line.find("aliases");
  if (found == line.end() || found->is_null() || (found->is_array() && found->empty()))
    return std::vector<std::string>();
  return ChoicesOf(line, "aliases");
}

absl::StatusOr<int64_t> GoldOf(const Json& line, size_t choices) {
  const auto found = line.find("gold");
  const bool is_index = found != line.end() && found->is_number_unsigned() && found->get<uint64_t>() < choices;
  if (!is_index)
    return absl::InvalidArgumentError(
        absl::StrCat("`gold` must be a whole number from 0 to ", choices - 1, ", the place of the right choice"));
  return found->get<int64_t>();
}

absl::StatusOr<Json> ObjectOf(absl::string_view line) {
  Json json = ParseJson(line);
  if (!json.is_object()) return absl::InvalidArgumentError("this line is not a JSON object");
  return json;
}

}  // namespace

bool IsPythonSpace(char32_t c) { return (CharTable::Get()[c] & char_is::kSpace) != 0 || (c >= 0x1c && c <= 0x1f); }

absl::string_view StripTextEnd(absl::string_view text) {
  while (!text.empty()) {
    const CodePoint last = CodePointBefore(text, text.size());
    if (!IsPythonSpace(last.value)) break;
    text.remove_suffix(last.length);
  }
  return text;
}

absl::string_view StripText(absl::string_view text) {
  while (!text.empty()) {
    const CodePoint first = CodePointAt(text, 0);
    if (!IsPythonSpace(first.value)) break;
    text.remove_prefix(first.length);
  }
  return StripTextEnd(text);
}

absl::StatusOr<IclTask::Example> IclTask::Read(absl::string_view line) {
  ASSIGN_OR_RETURN(const Json json, ObjectOf(line));
  const bool strips = options_.strip_dataset;
  Example example;
  if (options_.type == IclTaskType::kLanguageModeling) {
    ASSIGN_OR_RETURN(example.text, TextAt(json, "context", strips));
    ASSIGN_OR_RETURN(std::string continuation, TextAt(json, "continuation", strips));
    example.choices.push_back(std::move(continuation));
    return example;
  }
  if (options_.type == IclTaskType::kGeneration) {
    ASSIGN_OR_RETURN(example.text, TextAt(json, "context", strips));
    // Answers and thoughts are measured with their spaces, as by llm-foundry; right ones are compared without.
    ASSIGN_OR_RETURN(std::string answer, TextAt(json, "answer", /*strips=*/false));
    example.choices.push_back(strips ? std::string(StripText(answer)) : answer);
    ASSIGN_OR_RETURN(example.answers, AliasesOf(json));
    example.answers.insert(example.answers.begin(), std::move(answer));
    if (json.contains("chain_of_thought") && !json["chain_of_thought"].is_null()) {
      ASSIGN_OR_RETURN(example.thought, TextAt(json, "chain_of_thought", /*strips=*/false));
      has_thoughts_ = true;
    }
    return example;
  }
  const bool schema = options_.type == IclTaskType::kSchema;
  ASSIGN_OR_RETURN(example.text, TextAt(json, schema ? "continuation" : "query", strips));
  ASSIGN_OR_RETURN(example.choices, ChoicesOf(json, schema ? "context_options" : "choices"));
  ASSIGN_OR_RETURN(example.gold, GoldOf(json, example.choices.size()));
  return example;
}

absl::StatusOr<IclTask> IclTask::Open(const IclTaskOptions& options) {
  ASSIGN_OR_RETURN(const RecordFiles lines, RecordFiles::Open(options.paths, RecordKind::kLines));
  IclTask task;
  task.options_ = options;
  for (int64_t i = 0; i < lines.size(); ++i) {
    if (!options.category.empty()) {
      const absl::StatusOr<Json> json = ObjectOf(lines[i]);
      const bool is_other = json.ok() && json->value("category", Json()) != options.category;
      if (is_other) continue;
    }
    absl::StatusOr<Example> example = task.Read(lines[i]);
    if (!example.ok()) return Annotate(example.status(), lines.Where(i));
    task.examples_.push_back(*std::move(example));
  }
  if (task.examples_.empty()) return absl::InvalidArgumentError("the files have no line");
  task.few_shots_ = ChooseFewShots(task.size(), options.num_fewshot, options.fewshot_random_seed);
  return task;
}

std::string IclTask::Shot(const Example& example, bool is_first) const {
  const std::string& gold = example.choices[static_cast<size_t>(example.gold)];
  const absl::string_view delimiter = is_first ? absl::string_view() : options_.example_delimiter;
  if (options_.type == IclTaskType::kSchema)
    return absl::StrCat(options_.prelimiter, delimiter, gold, options_.continuation_delimiter, example.text);
  return absl::StrCat(delimiter, options_.prelimiter, example.text, options_.continuation_delimiter,
                      WithThought(options_.strip_dataset ? StripText(example.thought) : example.thought, gold));
}

std::string IclTask::WithThought(absl::string_view thought, const std::string& answer) const {
  return has_thoughts_ ? absl::StrCat(thought, options_.cot_delimiter, answer) : answer;
}

std::string IclTask::Response(int64_t question, const std::string& answer) const {
  return WithThought(examples_[static_cast<size_t>(question)].thought, answer);
}

// A schema's first context has nothing behind it.
std::string IclTask::ContextOf(const Example& example, int64_t choice, bool is_first) const {
  const bool strips = options_.strip_dataset;
  const absl::string_view before = options_.continuation_delimiter;
  if (options_.type == IclTaskType::kSchema) {
    const std::string& context = example.choices[static_cast<size_t>(choice)];
    if (is_first) return absl::StrCat(options_.prelimiter, context);
    return absl::StrCat(options_.prelimiter, options_.example_delimiter, context,
                        strips ? StripTextEnd(before) : before);
  }
  const std::string text =
      absl::StrCat(is_first ? "" : options_.example_delimiter, options_.prelimiter, example.text, before);
  return strips ? std::string(StripTextEnd(text)) : text;
}

IclTexts IclTask::Texts(int64_t question, int64_t choice) const {
  const Example& asked = examples_[static_cast<size_t>(question)];
  IclTexts texts;
  texts.preamble = options_.prompt_string;
  for (const int64_t shot : few_shots_[static_cast<size_t>(question)])
    absl::StrAppend(&texts.preamble, Shot(examples_[static_cast<size_t>(shot)], texts.preamble.empty()));
  texts.context = ContextOf(asked, choice, texts.preamble.empty());
  texts.answer = options_.type == IclTaskType::kSchema ? asked.text : asked.choices[static_cast<size_t>(choice)];
  texts.gold = asked.gold;
  return texts;
}

absl::StatusOr<int64_t> CountIclLines(const std::vector<std::string>& paths) {
  ASSIGN_OR_RETURN(const RecordFiles lines, RecordFiles::Open(paths, RecordKind::kLines));
  return lines.size();
}

absl::StatusOr<std::vector<std::string>> IclCategories(const std::vector<std::string>& paths) {
  ASSIGN_OR_RETURN(const RecordFiles lines, RecordFiles::Open(paths, RecordKind::kLines));
  std::set<std::string> categories;
  for (int64_t i = 0; i < lines.size(); ++i) {
    const absl::StatusOr<Json> json = ObjectOf(lines[i]);
    if (!json.ok()) return Annotate(json.status(), lines.Where(i));
    absl::StatusOr<std::string> category = TextAt(*json, "category", /*strips=*/false);
    if (category.ok() && category->empty()) category = absl::InvalidArgumentError("`category` is empty");
    if (!category.ok()) return Annotate(category.status(), lines.Where(i));
    categories.insert(*std::move(category));
  }
  return std::vector<std::string>(categories.begin(), categories.end());
}

}  // namespace composer
