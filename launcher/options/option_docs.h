// Shell completion and the manual page, made from the option table that parses the command line. Pure text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/options.h"

namespace composer {

struct ProgramDocs {
  struct Command {
    std::string name;
    std::string usage;
    std::string help;
    std::vector<std::string> words = {};  // its first argument is one of these
    std::vector<std::string> flags = {};  // "--json"
    bool takes_job = false;               // its argument is one of the lines of `NAME --print-completion jobs`
  };
  std::string name;  // a word of letters, digits, - and _
  std::string version;
  std::string summary;  // one line
  std::vector<std::string> usage;
  std::vector<Command> commands;
  std::vector<OptionGroup> options;
  // Title and paragraphs of further sections of the manual page.
  std::vector<std::pair<std::string, std::string>> sections;
};

// Returns a script to be sourced. It completes flags, the values of those that have choices, subcommands with their
// flags and words, running jobs and file names.
std::string BashCompletion(const ProgramDocs& docs);
// Returns the content of a file _NAME in zsh's $fpath.
std::string ZshCompletion(const ProgramDocs& docs);
// Returns the content of NAME.fish in fish's completions folder.
std::string FishCompletion(const ProgramDocs& docs);
// Returns a page of section 1, in man(7) macros.
std::string ManPage(const ProgramDocs& docs);

}  // namespace composer
