// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/option_docs.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace composer {
namespace {

std::vector<Option> Shown(const ProgramDocs& docs) {
  std::vector<Option> result;
  for (const Option& option : Flatten(docs.options)) {
    if (!option.hidden) result.push_back(option);
  }
  return result;
}

std::vector<std::string> Spellings(const Option& option) {
  std::vector<std::string> result;
  if (option.short_name != 0) result.push_back(absl::StrCat("-", std::string(1, option.short_name)));
  result.push_back(absl::StrCat("--", option.name));
  for (const std::string& alias : option.aliases) result.push_back(absl::StrCat("--", alias));
  return result;
}

std::string Identifier(const std::string& name) { return absl::StrReplaceAll(name, {{"-", "_"}}); }

std::vector<std::string> CommandNames(const ProgramDocs& docs) {
  std::vector<std::string> names;
  for (const ProgramDocs::Command& command : docs.commands) names.push_back(command.name);
  return names;
}

// Quotes text for '…' of a shell.
std::string Quoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

// Escapes text for an optspec of _arguments, where [ ] : \ are special.
std::string ZshText(const std::string& text) {
  return absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
}

// Escapes one line of running text: no line may begin with a control character, and - is a hyphen unless escaped.
std::string Roff(const std::string& text) {
  std::string result = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}});
  return !result.empty() && (result[0] == '.' || result[0] == '\'') ? absl::StrCat("\\&", result) : result;
}

std::string RoffOption(const Option& option) {
  std::vector<std::string> spellings;
  for (const std::string& spelling : Spellings(option))
    spellings.push_back(absl::StrCat("\\fB", Roff(spelling), "\\fR"));
  std::string text = absl::StrCat(".TP\n", absl::StrJoin(spellings, ", "));
  const std::string metavar = absl::StrCat("\\fI", Roff(option.metavar), "\\fR");
  if (!option.metavar.empty()) {
    absl::StrAppend(&text, option.implied.empty() ? absl::StrCat(" ", metavar) : absl::StrCat("[=", metavar, "]"));
  }
  absl::StrAppend(&text, "\n", Roff(option.help), ".");
  if (!option.fallback.empty()) absl::StrAppend(&text, " Default: ", Roff(option.fallback), ".");
  if (!option.environment.empty()) {
    absl::StrAppend(&text, " Environment: ", Roff(absl::StrJoin(option.environment, ", ")), ".");
  }
  return absl::StrCat(text, "\n");
}

// Returns a command that prints the running jobs, one per line.
std::string JobsOf(const ProgramDocs& docs) { return absl::StrCat(docs.name, " --print-completion jobs 2>/dev/null"); }

std::string FishText(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

std::string BashReply(const std::vector<std::string>& words) {
  return absl::StrCat("mapfile -t COMPREPLY < <(compgen -W ", Quoted(absl::StrJoin(words, " ")), " -- \"$word\")");
}

// Returns a shell function that takes a subcommand and the index, from 1, of the word after it.
std::string BashCommands(const ProgramDocs& docs, const std::string& function) {
  std::string text = absl::StrCat(function, "() {\n  case $1 in\n");
  for (const ProgramDocs::Command& c : docs.commands) {
    if (c.flags.empty()) continue;
    absl::StrAppend(&text, "    ", c.name, ")\n      if [[ $word == -* ]]; then\n        ", BashReply(c.flags), "\n");
    if (!c.words.empty()) absl::StrAppend(&text, "      elif (($2 == 1)); then\n        ", BashReply(c.words), "\n");
    if (c.takes_job)
      absl::StrAppend(&text, "      else\n        mapfile -t COMPREPLY < <(compgen -W \"$(", JobsOf(docs),
                      ")\" -- \"$word\")\n");
    absl::StrAppend(&text, "      fi ;;\n");
  }
  return absl::StrCat(text, "  esac\n}\n");
}

}  // namespace

std::string BashCompletion(const ProgramDocs& docs) {
  std::vector<std::string> flags, with_value, without_choices;
  std::string cases;
  for (const Option& option : Shown(docs)) {
    const std::vector<std::string> spellings = Spellings(option);
    flags.insert(flags.end(), spellings.begin(), spellings.end());
    if (option.metavar.empty() || !option.implied.empty()) continue;
    with_value.insert(with_value.end(), spellings.begin(), spellings.end());
    if (option.choices.empty()) {
      without_choices.insert(without_choices.end(), spellings.begin(), spellings.end());
      continue;
    }
    absl::StrAppend(&cases, "    ", absl::StrJoin(spellings, "|"), ") ", BashReply(option.choices), "; return ;;\n");
  }
  const std::string function = absl::StrCat("_", Identifier(docs.name));
  return absl::StrCat(
      "# bash completion of ", docs.name, "\n", BashCommands(docs, absl::StrCat(function, "_command")), function,
      "() {\n  local word=${COMP_WORDS[COMP_CWORD]} i=1\n  COMPREPLY=()\n",
      "  # Past the program its own words follow: file names, or those of a subcommand.\n",
      "  while ((i < COMP_CWORD)); do\n    case ${COMP_WORDS[i]} in\n", "      ", absl::StrJoin(with_value, "|"),
      ") ((i += 1)) ;;\n      --) return ;;\n      -*|=) ;;\n      *) ", function,
      "_command \"${COMP_WORDS[i]}\" $((COMP_CWORD - i)); return ;;\n    esac\n    ((i += 1))\n  done\n",
      "  case ${COMP_WORDS[COMP_CWORD-1]} in\n", cases, "    ", absl::StrJoin(without_choices, "|"),
      ") return ;;\n  esac\n  if [[ $word == -* ]]; then\n    ", BashReply(flags),
      "\n  else\n    mapfile -t COMPREPLY < <(compgen -W ", Quoted(absl::StrJoin(CommandNames(docs), " ")),
      " -- \"$word\"; compgen -f -- \"$word\")\n  fi\n}\ncomplete -o default -o bashdefault -F ", function, " ",
      docs.name, "\n");
}

std::string ZshCompletion(const ProgramDocs& docs) {
  std::string text =
      absl::StrCat("#compdef ", docs.name, "\nlocal context state line\ntypeset -A opt_args\n_arguments -C -S \\\n");
  for (const Option& option : Shown(docs)) {
    for (const std::string& spelling : Spellings(option)) {
      const bool value = !option.metavar.empty() && option.implied.empty();
      std::string spec = absl::StrCat(spelling, "[", ZshText(option.help), "]");
      if (value) absl::StrAppend(&spec, ":", ZshText(option.metavar), ":");
      if (value)
        absl::StrAppend(&spec,
                        option.choices.empty() ? "_files" : absl::StrCat("(", absl::StrJoin(option.choices, " "), ")"));
      absl::StrAppend(&text, "  ", Quoted(spec), " \\\n");
    }
  }
  absl::StrAppend(&text, "  ",
                  Quoted(absl::StrCat("1:program:_alternative \"commands:command:(",
                                      absl::StrJoin(CommandNames(docs), " "), ")\" \"files:file:_files\"")),
                  " \\\n  '*::argument:->argument'\n[[ $state == argument ]] || return\ncase $line[1] in\n");
  for (const ProgramDocs::Command& c : docs.commands) {
    if (c.flags.empty()) continue;
    absl::StrAppend(&text, "  ", c.name, ") if [[ $PREFIX == -* ]]; then compadd -- ", absl::StrJoin(c.flags, " "));
    if (!c.words.empty())
      absl::StrAppend(&text, "; elif ((CURRENT == 1)); then compadd -- ", absl::StrJoin(c.words, " "));
    absl::StrAppend(&text, "; else ",
                    c.takes_job ? absl::StrCat("compadd -- ${(f)\"$(", JobsOf(docs), ")\"}") : "_files", "; fi ;;\n");
  }
  return absl::StrCat(text, "  *) _files ;;\nesac\n");
}

std::string FishCompletion(const ProgramDocs& docs) {
  const std::string begin = absl::StrCat("complete -c ", docs.name, " -n ");
  std::string text = absl::StrCat("# fish completion of ", docs.name, "\n");
  for (const Option& option : Shown(docs)) {
    absl::StrAppend(&text, begin, "__fish_use_subcommand -l ", option.name);
    for (const std::string& alias : option.aliases) absl::StrAppend(&text, " -l ", alias);
    if (option.short_name != 0) absl::StrAppend(&text, " -s ", std::string(1, option.short_name));
    if (!option.choices.empty()) absl::StrAppend(&text, " -x -a ", FishText(absl::StrJoin(option.choices, " ")));
    if (option.choices.empty() && !option.metavar.empty() && option.implied.empty()) absl::StrAppend(&text, " -r");
    absl::StrAppend(&text, " -d ", FishText(option.help), "\n");
  }
  for (const ProgramDocs::Command& c : docs.commands) {
    absl::StrAppend(&text, begin, "__fish_use_subcommand -a ", c.name, " -d ", FishText(c.help), "\n");
    const std::string seen = absl::StrCat(begin, FishText(absl::StrCat("__fish_seen_subcommand_from ", c.name)));
    for (const std::string& flag : c.flags) absl::StrAppend(&text, seen, " -l ", flag.substr(2), "\n");
    if (!c.words.empty()) absl::StrAppend(&text, seen, " -a ", FishText(absl::StrJoin(c.words, " ")), "\n");
    if (c.takes_job) absl::StrAppend(&text, seen, " -f -a ", FishText(absl::StrCat("(", JobsOf(docs), ")")), "\n");
  }
  return text;
}

std::string ManPage(const ProgramDocs& docs) {
  std::string text = absl::StrCat(".TH ", absl::AsciiStrToUpper(docs.name), " 1 \"\" \"", docs.name, " ", docs.version,
                                  "\"\n.SH NAME\n", docs.name, " \\- ", Roff(docs.summary), "\n.SH SYNOPSIS\n.nf\n");
  for (const std::string& line : docs.usage) absl::StrAppend(&text, Roff(line), "\n");
  absl::StrAppend(&text, ".fi\n");
  if (!docs.commands.empty()) absl::StrAppend(&text, ".SH COMMANDS\n");
  for (const ProgramDocs::Command& command : docs.commands) {
    absl::StrAppend(&text, ".TP\n\\fB", docs.name, " ", Roff(command.name), "\\fR ", Roff(command.usage), "\n",
                    Roff(command.help), ".\n");
  }
  absl::StrAppend(&text, ".SH OPTIONS\nIn long names \\- and _ are equal.\n");
  for (const OptionGroup& group : docs.options) {
    std::string options;
    for (const Option& option : group.options) {
      if (!option.hidden) absl::StrAppend(&options, RoffOption(option));
    }
    if (!options.empty()) absl::StrAppend(&text, ".SS ", Roff(group.title), "\n", options);
  }
  for (const auto& [title, body] : docs.sections) {
    absl::StrAppend(&text, ".SH ", absl::AsciiStrToUpper(title), "\n");
    for (const absl::string_view line : absl::StrSplit(body, '\n')) {
      absl::StrAppend(&text, line.empty() ? ".PP" : Roff(std::string(line)), "\n");
    }
  }
  return text;
}

}  // namespace composer
