// A task of in-context evaluation: questions in JSON lines, and the texts that a language model is given for them.
// Names and texts are llm-foundry's (llmfoundry/eval/datasets/in_context_learning_evaluation.py).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

enum class IclTaskType { kLanguageModeling, kMultipleChoice, kSchema, kGeneration };

struct IclTaskOptions {
  std::vector<std::string> paths;  // files, folders or globs
  IclTaskType type = IclTaskType::kLanguageModeling;
  int64_t num_fewshot = 0;  // other examples, with their answers, before each
  uint32_t fewshot_random_seed = 1234;
  std::string prompt_string;                 // before everything
  std::string example_delimiter = "\n";      // before each example but one at the beginning of the text
  std::string continuation_delimiter = " ";  // between an example and its answer
  std::string prelimiter;                    // before each example, such as "Question: "
  bool strip_dataset = true;                 // spaces around texts, and at the end of what the model is given
  std::string category;                      // only lines whose `category` is this; "": all
  std::string cot_delimiter;                 // kGeneration: between a chain of thought and the answer
};

// What the model is given of a choice of a question: preamble, context and the answer, each tokenized by itself. A
// choice is an answer, or in a schema task a context. Of kGeneration the model is not given the answer.
struct IclTexts {
  std::string preamble, context, answer;
  int64_t gold = 0;  // the right choice
};

// Threads: any number at a time.
class IclTask {
 public:
  // A line is an object with texts `context` and `continuation` (kLanguageModeling); a text `query`, a list of texts
  // `choices` and the index `gold` (kMultipleChoice); a list of texts `context_options`, the index `gold` and a text
  // `continuation` (kSchema); or texts `context` and `answer`, and if it has them a list of texts `aliases` and a text
  // `chain_of_thought` (kGeneration). Other keys do not matter. kInvalidArgument names the file, the line's place and
  // the key; kNotFound: no such file.
  static absl::StatusOr<IclTask> Open(const IclTaskOptions& options);

  int64_t size() const { return static_cast<int64_t>(examples_.size()); }
  int64_t choices(int64_t question) const {
    return static_cast<int64_t>(examples_[static_cast<size_t>(question)].choices.size());
  }
  IclTexts Texts(int64_t question, int64_t choice) const;
  // kGeneration: the answers that are right, the line's own first, each once.
  const std::vector<std::string>& Answers(int64_t question) const {
    return examples_[static_cast<size_t>(question)].answers;
  }
  // kGeneration: what stands behind a question when it is answered so: where a line of the files has a chain of
  // thought, the question's own (or none) and cot_delimiter in front.
  std::string Response(int64_t question, const std::string& answer) const;

 private:
  struct Example {
    std::string text;                  // what the choices have in common: the question, or a schema's continuation
    std::vector<std::string> choices;  // of language modelling the one continuation
    int64_t gold = 0;
    std::vector<std::string> answers;  // kGeneration
    std::string thought;               // its chain_of_thought
  };
  absl::StatusOr<Example> Read(absl::string_view line);
  // An example with its answer, as it stands before a question.
  std::string Shot(const Example& example, bool is_first) const;
  std::string WithThought(absl::string_view thought, const std::string& answer) const;
  std::string ContextOf(const Example& example, int64_t choice, bool is_first) const;

  IclTaskOptions options_;
  std::vector<Example> examples_;
  std::vector<std::vector<int64_t>> few_shots_;
  bool has_thoughts_ = false;
};

// Returns the values of `category` in the files' lines, sorted. Errors are those of IclTask::Open.
absl::StatusOr<std::vector<std::string>> IclCategories(const std::vector<std::string>& paths);
// Returns the number of the files' lines. Errors are those of IclTask::Open.
absl::StatusOr<int64_t> CountIclLines(const std::vector<std::string>& paths);

// Whether Python's str.isspace says so: White_Space, and the separators of files, \x1c to \x1f.
bool IsPythonSpace(char32_t c);
// Removes spaces of Unicode from both ends, as Python's str.strip and str.rstrip do.
absl::string_view StripText(absl::string_view text);
absl::string_view StripTextEnd(absl::string_view text);

}  // namespace composer
