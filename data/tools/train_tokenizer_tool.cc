// SPDX-License-Identifier: Apache-2.0
#include "data/tools/train_tokenizer_tool.h"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/format/json.h"
#include "base/option_help.h"
#include "base/options.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "data/tokenizers/files/tokenizer_files.h"
#include "data/tokenizers/train/train_tokenizer.h"

namespace composer {
namespace {

constexpr char kTrainUsage[] = "usage: composer tokenizer train [flags] FOLDER < TEXT\n";
constexpr char kTrainHelp[] =
    "Trains a tokenizer on the lines of the standard input and writes it to the folder,\n"
    "as tokenizer.json and tokenizer_config.json of Hugging Face's libraries.\n";

struct TrainTokenizerOptions {
  std::string model = "bpe", key;
  int vocab_size = 30'000, min_frequency = 2;
  std::vector<std::string> special;
};

std::vector<Option> TrainTable(TrainTokenizerOptions& options) {
  return {Valued("model", "NAME", "bpe (of bytes, as GPT-2's) or wordpiece (as BERT's)", options.model,
                 IntoChoice(&options.model, {"bpe", "wordpiece"})),
          Valued("vocab-size", "N", "tokens in all", absl::StrCat(options.vocab_size),
                 IntoInt(&options.vocab_size, 1, 10'000'000)),
          Valued("min-frequency", "N", "how often a pair must come to become a token",
                 absl::StrCat(options.min_frequency), IntoInt(&options.min_frequency, 0, 1'000'000'000)),
          Valued("special", "TOKEN,…", "special tokens, which get the first numbers", "<|endoftext|>, or BERT's five",
                 [&](absl::string_view text) {
                   options.special = absl::StrSplit(text, ',');
                   return absl::OkStatus();
                 }),
          Valued("key", "NAME", "the lines are JSON objects, and this is the key of the text", "",
                 IntoString(&options.key))};
}

absl::StatusOr<std::string> TextOf(const std::string& line, const std::string& key) {
  if (key.empty()) return line;
  const nlohmann::json object = ParseJson(line);
  if (!object.is_object() || !object.contains(key) || !object[key].is_string())
    return absl::InvalidArgumentError(absl::StrCat("must be an object of JSON with the text `", key, "`"));
  return object[key].get<std::string>();
}

// Names the special tokens as transformers does: those that a model of this kind has.
std::string ConfigOf(const TokenizerParts& parts) {
  nlohmann::ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  for (const AddedToken& token : parts.added) {
    if (token.content == "<|endoftext|>") config["bos_token"] = config["eos_token"] = token.content;
    for (const char* name : {"pad", "unk", "cls", "sep", "mask"}) {
      std::string upper = name;
      for (char& c : upper) c = static_cast<char>(c - 'a' + 'A');
      if (token.content == absl::StrCat("[", upper, "]")) config[absl::StrCat(name, "_token")] = token.content;
    }
  }
  return config.dump(2) + "\n";
}

absl::Status TrainOn(std::istream& in, const TrainTokenizerOptions& options, const std::string& folder,
                     std::ostream& out) {
  const std::string path = JoinPath(folder, "tokenizer.json");
  if (PathExists(path)) return absl::InvalidArgumentError(absl::StrCat(path, " exists already"));
  ASSIGN_OR_RETURN(
      TokenizerTrainer trainer,
      TokenizerTrainer::Create({.model = options.model == "bpe" ? TrainedModel::kBpe : TrainedModel::kWordPiece,
                                .vocab_size = static_cast<size_t>(options.vocab_size),
                                .min_frequency = options.min_frequency,
                                .special = options.special}));
  int64_t lines = 0;
  for (std::string line; std::getline(in, line);) {
    ++lines;
    const absl::StatusOr<std::string> text = TextOf(line, options.key);
    if (!text.ok()) return Annotate(text.status(), absl::StrCat("line ", lines));
    trainer.Add(*text);
  }
  ASSIGN_OR_RETURN(const std::string file, trainer.Train());
  ASSIGN_OR_RETURN(const TokenizerParts parts, ParseTokenizerJson(file));
  RETURN_IF_ERROR(MakeDirs(folder));
  RETURN_IF_ERROR(AtomicWriteFile(JoinPath(folder, "tokenizer_config.json"), ConfigOf(parts)));
  RETURN_IF_ERROR(AtomicWriteFile(path, file));
  out << path << ": " << parts.model->vocabulary().size() << " tokens from " << lines << " lines with "
      << trainer.words() << " different words\n";
  return absl::OkStatus();
}

absl::Status TrainTokenizer(const std::vector<std::string>& args, std::istream& in, std::ostream& out) {
  TrainTokenizerOptions options;
  if (args.empty() || (args[0] != "train" && args[0] != "--help" && args[0] != "-h"))
    return absl::InvalidArgumentError("the command is `train`");
  const std::vector<std::string> rest(args.begin() + (args[0] == "train" ? 1 : 0), args.end());
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ParseToolArguments(TrainTable(options), rest, 1));
  return TrainOn(in, options, paths[0], out);
}

}  // namespace

int RunTokenizerTool(const std::vector<std::string>& args, std::istream& in, std::ostream& out, std::ostream& err) {
  const absl::Status status = TrainTokenizer(args, in, out);
  if (status.ok()) return 0;
  if (absl::IsCancelled(status)) {
    out << kTrainUsage << "\n" << kTrainHelp << "\n" << status.message();
    return 0;
  }
  err << "composer tokenizer: " << PrintableText(status.message()) << "\n";
  if (args.size() < 2) err << kTrainUsage;
  return 64;
}

}  // namespace composer
