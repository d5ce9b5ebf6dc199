// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/methods_command.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/console.h"
#include "base/nearest_name.h"
#include "base/option_help.h"
#include "base/options.h"
#include "config/schema.h"
#include "launcher/options/method_cards.h"
#include "launcher/options/print_help.h"

namespace composer {
namespace {

// Returns the paragraph below the heading, in one line.
std::string SummaryOf(const MethodCard& card) {
  const std::vector<absl::string_view> parts = absl::StrSplit(card.text, "\n\n");
  return parts.size() < 2 ? "" : absl::StrJoin(absl::StrSplit(parts[1], '\n'), " ");
}

// Returns the section that has the name: of an algorithm, else an optimizer or a scheduler; null if there is none.
const KeySection* SectionOf(absl::string_view name) {
  for (const char* kind : {"algorithm", "optimizer", "scheduler"}) {
    if (const KeySection* section = BuiltInSchema().Find(kind, name); section != nullptr) return section;
  }
  return nullptr;
}

std::string KeysOf(const KeySection& section, size_t columns) {
  if (section.rows.empty()) return "";
  std::vector<std::pair<std::string, std::string>> rows;
  for (const KeyRow& row : section.rows) {
    const std::string fallback = row.required            ? "required"
                                 : !row.fallback.empty() ? row.fallback
                                 : !row.derived.empty()  ? absl::StrCat("(", row.derived, ")")
                                                         : "none";
    rows.emplace_back(row.key, absl::StrCat(row.meaning, " ", row.type_text, "; default: ", fallback));
  }
  return absl::StrCat("\nKeys of the ", section.kind, ":\n", TwoColumns(rows, columns));
}

}  // namespace

std::string MethodIndex(size_t columns) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const MethodCard& card : MethodCards()) rows.emplace_back(card.name, SummaryOf(card));
  return absl::StrCat(TwoColumns(rows, columns), "\n`composer methods NAME` prints the card of one.\n");
}

absl::StatusOr<std::string> DescribeMethod(absl::string_view name, size_t columns) {
  std::vector<std::string> names;
  for (const MethodCard& card : MethodCards()) {
    names.emplace_back(card.name);
    if (card.name != name) continue;
    const KeySection* const section = SectionOf(name);
    return absl::StrCat(absl::StripPrefix(card.text, "# "), section == nullptr ? "" : KeysOf(*section, columns));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "no method is called `", name, "`", DidYouMean(std::string(name), names), "; `composer methods` lists them"));
}

int MethodsCommand(const std::vector<std::string>& arguments, const Environment& environment) {
  bool help = false;
  const std::vector<Option> table = {
      HelpSwitch(&help),
  };
  const auto parsed = ParseOptions(table, arguments, environment);
  if (!parsed.ok()) return UserError(parsed.status().message());
  if (parsed->rest.size() > 1) {  // flags may follow the name, too
    const auto after = ParseOptions(table, {parsed->rest.begin() + 1, parsed->rest.end()}, environment);
    if (!after.ok()) return UserError(after.status().message());
    if (!after->rest.empty()) return UserError("methods takes one name: composer methods [NAME]");
  }
  if (help) {
    return PrintHelp(CommandHelp("composer methods [NAME]",
                                 "Prints what makes training better or cheaper: what it does, when to use it, what it "
                                 "costs, and where it comes from.",
                                 table, HelpColumns()));
  }
  if (parsed->rest.empty()) return PrintHelp(MethodIndex(HelpColumns()));
  const absl::StatusOr<std::string> text = DescribeMethod(parsed->rest[0], HelpColumns());
  return text.ok() ? PrintHelp(*text) : UserError(text.status().message());
}

}  // namespace composer
