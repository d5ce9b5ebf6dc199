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
    std::vector<std::string> words = {};  // its first argument is one of them
    std::vector<std::string> flags = {};  // "--json"
    bool takes_job = false;               // its argument is what `NAME --print-completion jobs` lists
  };
  std::string name;  // a word of letters, digits, - and _
  std::string version;
  std::string summary;  // one line
  std::vector<std::string> usage;
  std::vector<Command> commands;
  std::vector<OptionGroup> options;
  std::vector<std::pair<std::string, std::string>> sections;  // title, paragraphs: more of the manual page
};

// A script to be sourced: completes flags, the values of those that have choices, subcommands with their flags and words,
// running jobs and file names.
std::string BashCompletion(const ProgramDocs& docs);
// The content of a file _NAME in zsh's $fpath.
std::string ZshCompletion(const ProgramDocs& docs);
// The content of NAME.fish in fish's completions folder.
std::string FishCompletion(const ProgramDocs& docs);
// Section 1, in man(7) macros.
std::string ManPage(const ProgramDocs& docs);

}  // namespace composer
