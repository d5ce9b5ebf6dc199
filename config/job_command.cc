// SPDX-License-Identifier: Apache-2.0
#include "config/job_command.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/options.h"
#include "base/status_macros.h"
#include "config/override.h"

namespace composer {
namespace {

struct CommandText {
  const char *name, *flags, *summary, *more;
};

constexpr CommandText kCommands[] = {
    {"eval", "[--json]", "run a job's evaluations on a checkpoint",
     "Runs every evaluation of the job's eval_dataloader and icl_tasks on a checkpoint "
     "and prints the metrics. They are exact, whatever the number of ranks is."},
    {"predict", "--output FILE", "write a model's outputs for the samples of a dataset",
     "Runs the model of a checkpoint over one of the job's eval_dataloader and writes "
     "its outputs in the order of the samples."},
    {"generate", "[--prompt TEXT ...] [--chat]", "let a language model continue texts",
     "Lets the language model of a checkpoint continue texts: those of --prompt, else "
     "those of the job's callbacks.generate, whose other settings count, too."},
};

constexpr char kAll[] =
    "The launch flags (composer --help), such as -n 2, come before the job's file. The "
    "checkpoint is a path or a URL of one, of a folder of them or of a run folder; "
    "without it the newest valid one of the job's save_folder is taken. The file needs "
    "no train_dataloader. Nothing is saved, and the run folder is not touched.";

const CommandText& TextOf(absl::string_view name) {
  return *std::find_if(std::begin(kCommands), std::end(kCommands),
                       [&](const CommandText& c) { return c.name == name; });
}

template <typename Number>
OptionSetter IntoNumber(std::optional<Number>* target, Number least, const char* allowed) {
  return [=](absl::string_view text) -> absl::Status {
    Number value{};
    bool reads = false;
    if constexpr (std::is_integral_v<Number>) {
      reads = absl::SimpleAtoi(text, &value);
    } else {
      reads = absl::SimpleAtod(text, &value);
    }
    if (!reads || !(value >= least)) return absl::InvalidArgumentError(allowed);
    *target = value;
    return absl::OkStatus();
  };
}

OptionSetter IntoOutput(std::string* target) {
  return [=](absl::string_view text) -> absl::Status {
    if (!absl::EndsWith(text, ".jsonl") && !absl::EndsWith(text, ".safetensors"))
      return absl::InvalidArgumentError("must end in .jsonl or .safetensors");
    *target = std::string(text);
    return absl::OkStatus();
  };
}

OptionSetter IntoTexts(std::vector<std::string>* target, const char* allowed) {
  return [=](absl::string_view text) -> absl::Status {
    if (text.empty()) return absl::InvalidArgumentError(allowed);
    target->emplace_back(text);
    return absl::OkStatus();
  };
}

std::vector<Option> GenerateTable(JobCommand& c) {
  return {Valued("prompt", "TEXT", "what to continue; may be given several times", "callbacks.generate.prompts",
                 IntoTexts(&c.prompts, "must have at least one byte to continue")),
          Switch("chat", "prompts are what a user says: ask for the answer by the chat template of the tokenizer",
                 IntoBool(&c.chat)),
          Valued("system", "TEXT", "with --chat: the system message", "", IntoString(&c.system)),
          Switch("stream", "print texts while they are made, one after the other", IntoBool(&c.stream)),
          Valued("max-new-tokens", "N", "tokens to add to each text", "20",
                 IntoNumber<int64_t>(&c.max_new_tokens, 1, "must be a whole number of at least 1")),
          Valued("min-new-tokens", "N", "before so many, no end-of-text token", "0",
                 IntoNumber<int64_t>(&c.min_new_tokens, 0, "must be a whole number of at least 0")),
          Valued("stop-string", "TEXT", "end a text when it has this; may be given several times", "",
                 IntoTexts(&c.stop_strings, "must have at least one byte")),
          Switch("do-sample", "draw tokens instead of taking the likeliest", IntoBool(&c.do_sample)),
          Valued("temperature", "X", "with --do-sample: logits are divided by it", "1",
                 IntoNumber<double>(&c.temperature, 0, "must be a number above 0")),
          Valued("top-k", "N", "with --do-sample: keep so many of the likeliest tokens; 0: all", "50",
                 IntoNumber<int64_t>(&c.top_k, 0, "must be a whole number of at least 0")),
          Valued("top-p", "X", "with --do-sample: of these, keep the likeliest up to this probability", "1",
                 IntoNumber<double>(&c.top_p, 0, "must be a number above 0, at most 1")),
          Valued("num-beams", "N", "beam search among so many texts", "1: none",
                 IntoNumber<int64_t>(&c.num_beams, 1, "must be a whole number of at least 1")),
          Valued("length-penalty", "X", "of beams: above 0 favours longer texts", "1",
                 IntoNumber<double>(&c.length_penalty, -100, "must be a number of at least -100")),
          Valued("repetition-penalty", "X", "above 1, tokens that the text has become less likely", "1",
                 IntoNumber<double>(&c.repetition_penalty, 0, "must be a number above 0")),
          Valued("no-repeat-ngram-size", "N", "so many tokens in a row occur only once; 0: no limit", "0",
                 IntoNumber<int64_t>(&c.no_repeat_ngram_size, 0, "must be a whole number of at least 0")),
          Valued("seed", "N", "with --do-sample: of the random numbers", "the job's",
                 IntoNumber<int64_t>(&c.seed, 0, "must be a whole number of at least 0"))};
}

std::vector<Option> TableOf(JobCommand& c) {
  std::vector<Option> table;
  if (c.name == "predict") {
    table = {
        Valued("output", "FILE",
               "where the outputs go: x.jsonl (a line for each sample) or x.safetensors (one tensor, outputs)", "",
               IntoOutput(&c.output)),
        Valued("dataloader", "LABEL", "which of eval_dataloader to read", "the only one", IntoString(&c.dataloader)),
        Valued("subset-num-batches", "N", "end after so many batches", "all",
               [target = &c.subset_num_batches](absl::string_view text) -> absl::Status {
                 std::optional<int64_t> count;
                 RETURN_IF_ERROR(IntoNumber<int64_t>(&count, 1, "must be a whole number of at least 1")(text));
                 *target = *count;
                 return absl::OkStatus();
               })};
  }
  if (c.name == "generate") table = GenerateTable(c);
  if (c.name != "predict") table.push_back(Switch("json", "print JSON", IntoBool(&c.json)));
  table.push_back(HelpSwitch(&c.help));
  return table;
}

bool IsYaml(absl::string_view word) { return absl::EndsWith(word, ".yaml") || absl::EndsWith(word, ".yml"); }

absl::Status TakeWord(const std::string& word, std::string& plugin, JobCommand& command) {
  if (command.yaml_path.empty()) {
    if (absl::EndsWith(word, ".so") && plugin.empty()) {
      plugin = word;
      return absl::OkStatus();
    }
    if (!IsYaml(word))
      return absl::InvalidArgumentError(
          absl::StrCat("composer ", command.name, ": `", word, "` is not the .yaml file of a job, which comes first"));
    command.yaml_path = word;
  } else if (LooksLikeOverride(word)) {
    command.overrides.push_back(word);
  } else if (command.checkpoint.empty()) {
    command.checkpoint = word;
  } else {
    return absl::InvalidArgumentError(absl::StrCat("composer ", command.name, ": `", word,
                                                   "` is one checkpoint too many: ", command.checkpoint,
                                                   " is given; settings are key=value"));
  }
  return absl::OkStatus();
}

}  // namespace

const std::vector<std::string>& JobCommandNames() {
  static const auto& names = *new std::vector<std::string>{"eval", "predict", "generate"};
  return names;
}

bool IsJobCommand(absl::string_view word) {
  return std::find(JobCommandNames().begin(), JobCommandNames().end(), word) != JobCommandNames().end();
}

absl::StatusOr<JobCommand> ParseJobCommand(const std::string& name, const std::vector<std::string>& words) {
  JobCommand command;
  command.name = name;
  const std::vector<Option> table = TableOf(command);
  std::string plugin;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].size() < 2 || words[i][0] != '-') {
      RETURN_IF_ERROR(TakeWord(words[i], plugin, command));
      continue;
    }
    // One flag at a time, because of several equal ones ParseOptions takes the last.
    absl::Status status = ParseOptions(table, {words[i]}, Environment()).status();
    if (!status.ok() && i + 1 < words.size()) {
      status = ParseOptions(table, {words[i], words[i + 1]}, Environment()).status();
      ++i;
    }
    RETURN_IF_ERROR(status);
    if (command.help) return command;
  }
  if (command.yaml_path.empty())
    return absl::InvalidArgumentError(
        absl::StrCat("composer ", name, ": no job file given; composer ", name, " job.yaml"));
  if (name == "predict" && command.output.empty())
    return absl::InvalidArgumentError("--output: required: a file x.jsonl or x.safetensors for the outputs");
  if (command.stream && command.json)
    return absl::InvalidArgumentError("--stream: prints texts piece by piece, --json whole; give one of them");
  if (!command.system.empty() && !command.chat)
    return absl::InvalidArgumentError("--system: needs --chat, whose template says how a system message is written");
  if (!plugin.empty())
    command.overrides.push_back(absl::StrCat("plugins=[\"", absl::CEscape(AbsolutePath(plugin)), "\"]"));
  return command;
}

std::string JobCommandUsage(const std::string& name) {
  return absl::StrCat("job.yaml [checkpoint] ", TextOf(name).flags, " [key=value ...]");
}

std::string JobCommandSummary(const std::string& name) { return TextOf(name).summary; }

std::string JobCommandHelp(const std::string& name, size_t columns) {
  JobCommand command;
  command.name = name;
  return CommandHelp(absl::StrCat("composer ", name, " [launch flags] JOB [checkpoint] [flags] [key=value ...]"),
                     absl::StrCat(TextOf(name).more, " ", kAll), TableOf(command), columns);
}

std::vector<std::string> JobCommandFlags(const std::string& name) {
  JobCommand command;
  command.name = name;
  std::vector<std::string> flags;
  for (const Option& option : TableOf(command)) flags.push_back(absl::StrCat("--", option.name));
  return flags;
}

}  // namespace composer
