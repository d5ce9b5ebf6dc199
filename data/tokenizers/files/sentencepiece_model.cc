// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/text/utf8_repair.h"
#include "data/tokenizers/files/bpe_parts.h"
#include "data/tokenizers/files/proto_reader.h"
#include "data/tokenizers/files/tokenizer_files.h"
#include "data/tokenizers/model/bpe.h"
#include "data/tokenizers/model/unigram.h"
#include "data/tokenizers/normalize/charsmap.h"
#include "data/tokenizers/split/match_splitter.h"
#include "data/tokenizers/split/simple_splitters.h"

namespace composer {
namespace {

constexpr absl::string_view kMark = "\xe2\x96\x81";  // U+2581
enum PieceType { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

struct Piece {
  std::string text;
  float score = 0;
  int type = kNormal;
};

// What this reads of sentencepiece_model.proto.
struct ModelFile {
  std::vector<Piece> pieces;
  int model_type = 1;  // 1: Unigram, 2: BPE
  bool byte_fallback = false, suffix_marks = false;
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
  std::string charsmap, unknown_text = " \xe2\x81\x87 ";  // what the unknown token is in decoded text
  uint32_t unk = 0, bos = 1, eos = 2, pad = ~0U;
};

absl::Status ReadTrainer(absl::string_view bytes, ModelFile& file) {
  ProtoReader reader(bytes);
  for (ProtoField field; reader.Next(field);) {
    if (field.number == 3) file.model_type = static_cast<int>(field.value);
    if (field.number == 24) file.suffix_marks = field.value != 0;
    if (field.number == 35) file.byte_fallback = field.value != 0;
    if (field.number == 40) file.unk = static_cast<uint32_t>(field.value);
    if (field.number == 41) file.bos = static_cast<uint32_t>(field.value);
    if (field.number == 42) file.eos = static_cast<uint32_t>(field.value);
    if (field.number == 44) file.unknown_text = std::string(field.bytes);
    if (field.number == 43) file.pad = static_cast<uint32_t>(field.value);
  }
  return reader.ok() ? absl::OkStatus() : absl::InvalidArgumentError("trainer_spec: is damaged");
}

absl::Status ReadNormalizerSpec(absl::string_view bytes, ModelFile& file) {
  ProtoReader reader(bytes);
  for (ProtoField field; reader.Next(field);) {
    if (field.number == 2) file.charsmap = std::string(field.bytes);
    if (field.number == 3) file.add_dummy_prefix = field.value != 0;
    if (field.number == 4) file.remove_extra_whitespaces = field.value != 0;
    if (field.number == 5) file.escape_whitespaces = field.value != 0;
  }
  return reader.ok() ? absl::OkStatus() : absl::InvalidArgumentError("normalizer_spec: is damaged");
}

absl::Status ReadPiece(absl::string_view bytes, ModelFile& file) {
  Piece piece;
  ProtoReader reader(bytes);
  for (ProtoField field; reader.Next(field);) {
    if (field.number == 1) piece.text = std::string(field.bytes);
    if (field.number == 2) piece.score = field.AsFloat();
    if (field.number == 3) piece.type = static_cast<int>(field.value);
  }
  if (!reader.ok() || !IsUtf8(piece.text) || piece.text.empty() || !std::isfinite(piece.score) ||
      file.pieces.size() >= Vocabulary::kMaxTokens)
    return absl::InvalidArgumentError(absl::StrCat("pieces[", file.pieces.size(), "]: is damaged"));
  file.pieces.push_back(std::move(piece));
  return absl::OkStatus();
}

absl::StatusOr<ModelFile> ReadModelFile(absl::string_view bytes) {
  ModelFile file;
  ProtoReader reader(bytes);
  for (ProtoField field; reader.Next(field);) {
    if (field.number == 1) RETURN_IF_ERROR(ReadPiece(field.bytes, file));
    if (field.number == 2) RETURN_IF_ERROR(ReadTrainer(field.bytes, file));
    if (field.number == 3) RETURN_IF_ERROR(ReadNormalizerSpec(field.bytes, file));
  }
  if (!reader.ok() || file.pieces.empty()) return absl::InvalidArgumentError("this is not a SentencePiece model");
  if (file.model_type != 1 && file.model_type != 2)
    return absl::InvalidArgumentError("trainer_spec.model_type: only UNIGRAM and BPE are supported");
  if (file.suffix_marks) return absl::InvalidArgumentError("trainer_spec.treat_whitespace_as_suffix: is not supported");
  if (!file.escape_whitespaces)
    return absl::InvalidArgumentError("normalizer_spec.escape_whitespaces: false is not supported");
  return file;
}

// The pairs that make a piece, in the order of the pieces' scores; pieces of one score have one rank.
absl::StatusOr<std::vector<BpeMerge>> MergesOfScores(const ModelFile& file, const Vocabulary& vocabulary) {
  std::vector<float> scores;
  for (const Piece& piece : file.pieces) scores.push_back(piece.score);
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  std::vector<BpeMerge> merges;
  for (uint32_t id = 0; id < file.pieces.size(); ++id) {
    const Piece& piece = file.pieces[id];
    if (piece.type == kUnused)
      return absl::InvalidArgumentError(absl::StrCat("pieces[", id, "]: UNUSED in a BPE model is not supported"));
    if (piece.type != kNormal && piece.type != kUserDefined) continue;
    const auto rank = static_cast<uint32_t>(
        std::lower_bound(scores.begin(), scores.end(), piece.score, std::greater<>()) - scores.begin());
    const auto may_merge = [&](std::optional<uint32_t> part) { return part && file.pieces[*part].type == kNormal; };
    for (size_t cut = 1; cut < piece.text.size(); ++cut) {
      const absl::string_view text = piece.text;
      const auto left = vocabulary.Find(text.substr(0, cut)), right = vocabulary.Find(text.substr(cut));
      if (may_merge(left) && may_merge(right)) merges.push_back({*left, *right, rank, id});
    }
  }
  return merges;
}

double UserScore(const Piece& piece, float highest) { return static_cast<float>(piece.text.size()) * highest - 0.1F; }

absl::StatusOr<std::unique_ptr<const TokenModel>> MakeModel(const ModelFile& file, Vocabulary vocabulary) {
  if (file.unk >= file.pieces.size())
    return absl::InvalidArgumentError("trainer_spec.unk_id: is not in the vocabulary");
  if (file.model_type == 2) {
    ASSIGN_OR_RETURN(const std::vector<BpeMerge> merges, MergesOfScores(file, vocabulary));
    BpeOptions options{.unknown = file.unk, .fuse_unknown = true, .byte_fallback = file.byte_fallback};
    for (uint32_t id = 0; id < file.pieces.size(); ++id) {
      if (file.pieces[id].type == kUserDefined) options.whole_pieces.insert(id);
    }
    return std::make_unique<BpeModel>(std::move(vocabulary), merges, std::move(options));
  }
  float highest = -std::numeric_limits<float>::infinity();
  for (const Piece& piece : file.pieces) {
    if (piece.type == kNormal) highest = std::max(highest, piece.score);
  }
  std::vector<double> scores;
  double lowest = std::numeric_limits<double>::infinity();
  for (const Piece& piece : file.pieces) {
    const bool counts = piece.type == kNormal || piece.type == kUserDefined;
    scores.push_back(!counts                 ? std::numeric_limits<double>::quiet_NaN()
                     : piece.type == kNormal ? piece.score
                                             : UserScore(piece, highest));
    if (piece.type == kNormal) lowest = std::min<double>(lowest, piece.score);
  }
  return std::make_unique<UnigramModel>(
      std::move(vocabulary), std::move(scores),
      UnigramOptions{
          .unknown = file.unk, .byte_fallback = file.byte_fallback, .sums_in_float = true, .lowest_score = lowest});
}

void AddSpecialTokens(const ModelFile& file, TokenizerParts& parts) {
  for (uint32_t id = 0; id < file.pieces.size(); ++id) {
    if (file.pieces[id].type != kControl && id != file.unk) continue;
    parts.hidden.push_back(id);
  }
  for (const auto& [name, id] : std::initializer_list<std::pair<const char*, uint32_t>>{
           {"unk", file.unk}, {"bos", file.bos}, {"eos", file.eos}, {"pad", file.pad}}) {
    if (id < file.pieces.size()) parts.special[name] = id;
  }
}

}  // namespace

absl::StatusOr<TokenizerParts> ParseSentencePiece(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const ModelFile file, ReadModelFile(bytes));
  TokenNumbers tokens;
  for (const Piece& piece : file.pieces) tokens.emplace_back(piece.text, static_cast<uint32_t>(tokens.size()));
  ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::Create(std::move(tokens)));
  TokenizerParts parts;
  SentencePieceRules rules{nullptr, file.add_dummy_prefix, file.remove_extra_whitespaces, {}};
  for (const Piece& piece : file.pieces) {
    if (piece.type == kUserDefined) rules.symbols.push_back(piece.text);
  }
  ASSIGN_OR_RETURN(rules.map, Charsmap::Parse(file.charsmap));
  if (file.model_type == 2) {
    std::vector<PreTokenizerPtr> cuts;
    if (!rules.symbols.empty()) cuts.push_back(MakeMatchSplitter(FindLongest(rules.symbols), MatchBehavior::kIsolated));
    if (rules.symbols.empty() && vocabulary.Find(kMark) && OnlyLeads(vocabulary, kMark))
      cuts.push_back(MakeCutBefore(std::string(kMark)));
    parts.pre_tokenizer = MakeSequence(std::move(cuts));
  }
  parts.normalizer = MakeSentencePieceNormalizer(std::move(rules));
  ASSIGN_OR_RETURN(parts.model, MakeModel(file, std::move(vocabulary)));
  AddSpecialTokens(file, parts);
  parts.decode_steps = {DecodeOneToken(file.pieces[file.unk].text, file.unknown_text),
                        DecodeReplace(FindLiteral(std::string(kMark)), " "), DecodeByteFallback(), DecodeFuse()};
  if (file.add_dummy_prefix) parts.decode_steps.push_back(DecodeStrip(" ", 1, 0));
  return parts;
}

}  // namespace composer
