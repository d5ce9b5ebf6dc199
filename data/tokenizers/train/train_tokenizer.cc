// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizers/train/train_tokenizer.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/text/aligned_text.h"
#include "data/text/characters.h"
#include "data/text/utf8_repair.h"
#include "data/tokenizers/files/byte_characters.h"
#include "data/tokenizers/files/tokenizer_files.h"
#include "data/tokenizers/train/bpe_trainer.h"

namespace composer {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr char kWithin[] = "##";
constexpr size_t kMaxTrainedTokens = 10'000'000;

std::vector<std::string> UsualSpecialTokens(TrainedModel model) {
  if (model == TrainedModel::kBpe) return {"<|endoftext|>"};
  return {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
}

OrderedJson BytesBpe() {
  const OrderedJson byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  return {{"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false}}}};
}

OrderedJson BertWordPiece(const std::vector<std::string>& special) {
  const auto place = [&](const char* token) {
    return static_cast<int64_t>(std::find(special.begin(), special.end(), token) - special.begin());
  };
  const bool has_frame = place("[CLS]") < std::ssize(special) && place("[SEP]") < std::ssize(special);
  return {{"normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", true},
            {"strip_accents", nullptr},
            {"lowercase", true}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"post_processor", has_frame ? OrderedJson{{"type", "BertProcessing"},
                                                     {"sep", {"[SEP]", place("[SEP]")}},
                                                     {"cls", {"[CLS]", place("[CLS]")}}}
                                       : OrderedJson(nullptr)},
          {"decoder", {{"type", "WordPiece"}, {"prefix", kWithin}, {"cleanup", true}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", "[UNK]"},
            {"continuing_subword_prefix", kWithin},
            {"max_input_chars_per_word", 100}}}};
}

// The file with this vocabulary; `merges` are only BPE's. Tokens of bytes become characters.
std::string FileOf(const TokenizerTraining& training, const std::vector<std::string>& tokens,
                   const std::vector<std::pair<uint32_t, uint32_t>>& merges) {
  const bool of_bytes = training.model == TrainedModel::kBpe;
  std::vector<std::string> texts;
  for (size_t i = 0; i < tokens.size(); ++i)
    texts.push_back(of_bytes && i >= training.special.size() ? CharactersOfBytes(tokens[i]) : tokens[i]);
  OrderedJson file = {
      {"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}, {"added_tokens", OrderedJson::array()}};
  for (size_t i = 0; i < training.special.size(); ++i) {
    file["added_tokens"].push_back({{"id", i},
                                    {"content", training.special[i]},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", true}});
  }
  file.update(of_bytes ? BytesBpe() : BertWordPiece(training.special));
  OrderedJson& model = file["model"];
  model["vocab"] = OrderedJson::object();
  for (size_t i = 0; i < texts.size(); ++i) model["vocab"][texts[i]] = i;
  if (of_bytes) {
    model["merges"] = OrderedJson::array();
    for (const auto& [a, b] : merges) model["merges"].push_back({texts[a], texts[b]});
  }
  return file.dump(2, ' ', /*ensure_ascii=*/false, OrderedJson::error_handler_t::replace) + "\n";
}

// Bytes in the order of the characters that stand for them.
std::vector<std::string> ByteAlphabet() {
  std::vector<std::string> bytes;
  for (int b = 0; b < 256; ++b) bytes.emplace_back(1, static_cast<char>(b));
  std::sort(bytes.begin(), bytes.end(), [](const std::string& a, const std::string& b) {
    return CodePointAt(CharactersOfBytes(a), 0).value < CodePointAt(CharactersOfBytes(b), 0).value;
  });
  return bytes;
}

std::vector<std::string> CharactersOf(absl::string_view word) {
  std::vector<std::string> characters;
  for (size_t at = 0; at < word.size();) {
    const size_t length = CodePointAt(word, at).length;
    characters.emplace_back(word.substr(at, length));
    at += length;
  }
  return characters;
}

// The symbols of a word: bytes, or characters, of which all but the first have the prefix.
std::vector<std::string> SymbolsOf(absl::string_view word, TrainedModel model) {
  std::vector<std::string> symbols;
  if (model == TrainedModel::kBpe) {
    for (const char byte : word) symbols.emplace_back(1, byte);
    return symbols;
  }
  symbols = CharactersOf(word);
  for (size_t i = 1; i < symbols.size(); ++i) symbols[i] = kWithin + symbols[i];
  return symbols;
}

std::vector<std::string> AlphabetOf(const absl::flat_hash_map<std::string, int64_t>& words, TrainedModel model) {
  if (model == TrainedModel::kBpe) return ByteAlphabet();
  std::set<std::string> characters, within;  // UTF-8 sorts as code points do
  for (const auto& [word, count] : words) {
    bool is_first = true;
    for (const std::string& character : CharactersOf(word)) {
      characters.insert(character);
      if (!std::exchange(is_first, false)) within.insert(kWithin + character);
    }
  }
  std::vector<std::string> alphabet(characters.begin(), characters.end());
  alphabet.insert(alphabet.end(), within.begin(), within.end());
  return alphabet;
}

absl::Status Check(const TokenizerTraining& training) {
  std::set<std::string> seen;
  for (const std::string& token : training.special) {
    if (token.empty()) return absl::InvalidArgumentError("a special token is empty");
    if (!seen.insert(token).second)
      return absl::InvalidArgumentError(absl::StrCat("the special token `", token, "` comes twice"));
  }
  if (training.model == TrainedModel::kWordPiece && !seen.contains("[UNK]"))
    return absl::InvalidArgumentError("WordPiece needs the special token `[UNK]`");
  const size_t least = training.special.size() + (training.model == TrainedModel::kBpe ? 256 : 1);
  if (training.vocab_size < least || training.vocab_size > kMaxTrainedTokens)
    return absl::InvalidArgumentError(absl::StrCat("a vocabulary of ", training.vocab_size, " tokens: it must have ",
                                                   least, " to ", kMaxTrainedTokens));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenizerTrainer> TokenizerTrainer::Create(TokenizerTraining training) {
  if (training.special.empty()) training.special = UsualSpecialTokens(training.model);
  RETURN_IF_ERROR(Check(training));
  TokenizerTrainer trainer(std::move(training));
  // Its steps before the model, as whoever opens the trained file will have them.
  std::vector<std::string> tokens = trainer.training_.special;
  if (trainer.training_.model == TrainedModel::kBpe) {
    for (std::string& byte : ByteAlphabet()) tokens.push_back(std::move(byte));
  }
  ASSIGN_OR_RETURN(TokenizerParts opened, ParseTokenizerJson(FileOf(trainer.training_, tokens, {})));
  const auto parts = std::make_shared<const TokenizerParts>(std::move(opened));
  trainer.cut_ = [parts](absl::string_view text, const std::function<void(absl::string_view)>& take) {
    AlignedText whole(text, {0, static_cast<uint32_t>(text.size())}, /*tracks=*/false);
    if (parts->normalizer != nullptr) parts->normalizer->Apply(whole);
    if (whole.view().empty()) return;
    const auto size = static_cast<uint32_t>(whole.view().size());
    SplitText split{std::move(whole), {{0, size}}};
    parts->pre_tokenizer->Apply(split);
    for (const TextSpan& piece : split.pieces) take(split.text.view().substr(piece.begin, piece.end - piece.begin));
  };
  return trainer;
}

void TokenizerTrainer::Add(absl::string_view text) {
  if (text.empty()) return;
  cut_(RepairUtf8(text), [this](absl::string_view word) { ++counts_[word]; });
}

absl::StatusOr<std::string> TokenizerTrainer::Train() const {
  if (counts_.empty()) return absl::InvalidArgumentError("there is no text to train on");
  std::vector<std::string> tokens = training_.special;
  for (std::string& symbol : AlphabetOf(counts_, training_.model)) tokens.push_back(std::move(symbol));
  if (tokens.size() > training_.vocab_size)
    return absl::InvalidArgumentError(absl::StrCat("the texts have ", tokens.size() - training_.special.size(),
                                                   " different characters, for which a vocabulary of ",
                                                   training_.vocab_size, " tokens has no room"));
  absl::flat_hash_map<std::string, uint32_t> ids;
  for (size_t i = training_.special.size(); i < tokens.size(); ++i) ids.emplace(tokens[i], static_cast<uint32_t>(i));
  std::vector<CountedWord> words;
  for (const auto& [word, count] : counts_) {
    CountedWord& counted = words.emplace_back();
    counted.count = count;
    for (const std::string& symbol : SymbolsOf(word, training_.model)) counted.symbols.push_back(ids.at(symbol));
  }
  const BpeTrainerOptions options = {
      .vocab_size = training_.vocab_size,
      .min_frequency = training_.min_frequency,
      .continuing_prefix = training_.model == TrainedModel::kWordPiece ? kWithin : "",
  };
  const auto merges = TrainBpe(std::move(words), options, tokens);
  return FileOf(training_, tokens, merges);
}

}  // namespace composer
