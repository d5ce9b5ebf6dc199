// SPDX-License-Identifier: Apache-2.0
#include "data/tools/tokenize_tool.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/option_help.h"
#include "base/options.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "data/tokenizers/files/tokenizer_files.h"

namespace composer {
namespace {

constexpr char kTokenizeUsage[] = "usage: composer tokenize [flags] PATH < TEXT\n";
constexpr char kTokenizeHelp[] =
    "Prints the numbers of each line's tokens. PATH is a tokenizer: a folder with\n"
    "tokenizer.json, tokenizer.model, vocab.txt, or vocab.json and merges.txt; or one\n"
    "of these, or a .tiktoken file. The lines come from the standard input.\n";

struct TokenizeOptions {
  OpenTokenizerOptions open;
  bool decode = false, count = false, spans = false, plain = false;
};

struct LineTotals {
  int64_t lines = 0, bytes = 0, tokens = 0;
};

absl::Status EncodeLine(const TextTokenizer& tokenizer, const TokenizeOptions& options, absl::string_view line,
                        std::ostream& out, LineTotals& totals) {
  ASSIGN_OR_RETURN(const EncodedText encoded,
                   tokenizer.Encode(line, {.add_special_tokens = !options.plain, .spans = options.spans}));
  totals.tokens += static_cast<int64_t>(encoded.ids.size());
  if (options.count) return absl::OkStatus();
  for (size_t i = 0; i < encoded.ids.size(); ++i) {
    out << (i == 0 ? "" : " ") << encoded.ids[i];
    if (options.spans) out << ":" << encoded.spans[i].begin << "-" << encoded.spans[i].end;
  }
  out << "\n";
  return absl::OkStatus();
}

absl::Status DecodeLine(const TextTokenizer& tokenizer, const TokenizeOptions& options, absl::string_view line,
                        std::ostream& out) {
  std::vector<int64_t> ids;
  for (const absl::string_view word : absl::StrSplit(line, absl::ByAnyChar(" \t,[]\r"), absl::SkipEmpty())) {
    int64_t id = 0;
    if (!absl::SimpleAtoi(word, &id) || id < 0 || id >= tokenizer.vocab_size())
      return absl::InvalidArgumentError(
          absl::StrCat("`", word.substr(0, 100), "` is not a token from 0 to ", tokenizer.vocab_size() - 1));
    ids.push_back(id);
  }
  out << tokenizer.Decode(ids, /*skip_special_tokens=*/options.plain) << "\n";
  return absl::OkStatus();
}

absl::Status TokenizeLines(const TextTokenizer& tokenizer, const TokenizeOptions& options, std::istream& in,
                           std::ostream& out, LineTotals& totals) {
  for (std::string line; std::getline(in, line);) {
    ++totals.lines;
    totals.bytes += static_cast<int64_t>(line.size()) + 1;
    const absl::Status status =
        options.decode ? DecodeLine(tokenizer, options, line, out) : EncodeLine(tokenizer, options, line, out, totals);
    if (!status.ok()) return Annotate(status, absl::StrCat("line ", totals.lines));
  }
  return absl::OkStatus();
}

std::vector<Option> TokenizeTable(TokenizeOptions& options) {
  return {Switch("decode", "numbers into text", IntoBool(&options.decode)),
          Switch("count", "print only lines, bytes and tokens", IntoBool(&options.count)),
          Switch("spans", "with the bytes of the line that each token stands for", IntoBool(&options.spans)),
          Switch("no-special-tokens", "without those that are added to a text", IntoBool(&options.plain)),
          Valued("pattern", "NAME", "of a .tiktoken file: gpt2, cl100k, qwen2 or o200k", "cl100k",
                 [&](absl::string_view text) {
                   const auto pattern = PatternOfName(text);
                   if (pattern.ok()) options.open.pattern = *pattern;
                   return pattern.status();
                 }),
          Valued("special", "TOKEN,…", "of a .tiktoken file: its special tokens, in order", "",
                 [&](absl::string_view text) {
                   options.open.special = absl::StrSplit(text, ',', absl::SkipEmpty());
                   return absl::OkStatus();
                 })};
}

absl::Status Tokenize(const std::vector<std::string>& args, std::istream& in, std::ostream& out) {
  TokenizeOptions options;
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ParseToolArguments(TokenizeTable(options), args, 1));
  ASSIGN_OR_RETURN(const std::unique_ptr<TextTokenizer> tokenizer, OpenTokenizer(paths[0], options.open));
  LineTotals totals;
  RETURN_IF_ERROR(TokenizeLines(*tokenizer, options, in, out, totals));
  if (options.count) out << totals.lines << " lines, " << totals.bytes << " bytes, " << totals.tokens << " tokens\n";
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::function<absl::StatusOr<int64_t>(absl::string_view text)>> OpenTokenCounter(
    const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<TextTokenizer> opened, OpenTokenizer(path));
  return [tokenizer = std::shared_ptr<const TextTokenizer>(std::move(opened))](
             absl::string_view text) -> absl::StatusOr<int64_t> {
    ASSIGN_OR_RETURN(const EncodedText encoded, tokenizer->Encode(text, {.add_special_tokens = false}));
    return static_cast<int64_t>(encoded.ids.size());
  };
}

int RunTokenizeTool(const std::vector<std::string>& args, std::istream& in, std::ostream& out, std::ostream& err) {
  const absl::Status status = Tokenize(args, in, out);
  if (status.ok()) return 0;
  if (absl::IsCancelled(status)) {
    out << kTokenizeUsage << "\n" << kTokenizeHelp << "\n" << status.message();
    return 0;
  }
  err << "composer tokenize: " << PrintableText(status.message()) << "\n";
  if (absl::IsInvalidArgument(status) && args.empty()) err << kTokenizeUsage;
  return 64;
}

}  // namespace composer
