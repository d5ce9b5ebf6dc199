// tests/integration/docs_test.py runs the completion scripts in real shells, and the manual page in real man.
// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/option_docs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace composer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

ProgramDocs Docs() {
  const OptionSetter none = [](absl::string_view) { return absl::OkStatus(); };
  return {.name = "ship",
          .version = "1.2",
          .summary = "sails - or sinks",
          .usage = {".ship [flags] PORT"},
          .commands = {{"sink", "[--fast]", "ends it's life", {"now", "later"}, {"--fast"}, true}},
          .options = {{"crew",
                       {{.name = "sailors",
                         .aliases = {"hands"},
                         .short_name = 'n',
                         .environment = {"SHIP_SAILORS", "HANDS"},
                         .metavar = "N",
                         .help = "how many; it's [all]: yes",
                         .fallback = "3",
                         .set = none,
                         .choices = {"few", "many"}},
                        {.name = "drunk", .help = "a switch", .set = none},
                        {.name = "song", .metavar = "FILE", .help = "to sing", .set = none},
                        {.name = "secret", .help = "hidden", .set = none, .hidden = true}}}},
          .sections = {{"notes", "First.\n\n.Second"}}};
}

TEST(OptionDocsTest, BashCompletesFlagsChoicesAndCommands) {
  EXPECT_THAT(BashCompletion(Docs()),
              AllOf(HasSubstr("-n|--sailors|--hands) mapfile -t COMPREPLY < <(compgen -W 'few many'"),
                    HasSubstr("compgen -W '-n --sailors --hands --drunk --song'"), HasSubstr("compgen -W 'sink'"),
                    HasSubstr("-F _ship ship"), Not(HasSubstr("secret"))));
}

TEST(OptionDocsTest, ZshTextIsQuoted) {
  EXPECT_THAT(
      ZshCompletion(Docs()),
      AllOf(HasSubstr("#compdef ship\n"), HasSubstr("'--hands[how many; it'\\''s \\[all\\]\\: yes]:N:(few many)'"),
            HasSubstr("'--drunk[a switch]'"), HasSubstr("'--song[to sing]:FILE:_files'"), Not(HasSubstr("secret"))));
}

TEST(OptionDocsTest, FishKnowsCommandsFlagsAndJobs) {
  EXPECT_THAT(
      FishCompletion(Docs()),
      AllOf(HasSubstr(
                "complete -c ship -n __fish_use_subcommand -l sailors -l hands -s n -x -a 'few many' -d 'how many;"),
            HasSubstr("complete -c ship -n __fish_use_subcommand -l song -r -d 'to sing'\n"),
            HasSubstr("-n __fish_use_subcommand -a sink -d 'ends it\\'s life'\n"),
            HasSubstr("-n '__fish_seen_subcommand_from sink' -l fast\n"),
            HasSubstr("-n '__fish_seen_subcommand_from sink' -a 'now later'\n"),
            HasSubstr("-f -a '(ship --print-completion jobs 2>/dev/null)'\n"), Not(HasSubstr("secret"))));
}

TEST(OptionDocsTest, ManPageEscapesWhatRoffWouldTake) {
  EXPECT_THAT(
      ManPage(Docs()),
      AllOf(HasSubstr(".TH SHIP 1 \"\" \"ship 1.2\"\n"), HasSubstr("\\&.ship [flags] PORT\n"),
            HasSubstr("ship \\- sails \\- or sinks\n"),
            HasSubstr(".TP\n\\fB\\-n\\fR, \\fB\\-\\-sailors\\fR, \\fB\\-\\-hands\\fR \\fIN\\fR\nhow many; it's [all]: "
                      "yes. Default: 3. Environment: SHIP_SAILORS, HANDS.\n"),
            HasSubstr(".SH NOTES\nFirst.\n.PP\n\\&.Second\n"), Not(HasSubstr("secret"))));
}

}  // namespace
}  // namespace composer
