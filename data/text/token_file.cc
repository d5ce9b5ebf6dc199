// SPDX-License-Identifier: Apache-2.0
#include "data/text/token_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/format/little_endian.h"
#include "base/status_macros.h"
#include "data/text/npy.h"

namespace composer {
namespace {

template <typename T>
void CopyAs(const char* from, int64_t count, int64_t* to) {
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    to[i] = static_cast<int64_t>(value);
  }
}

// kInvalidArgument for an array that holds no tokens.
absl::StatusOr<TokenType> TypeOf(const NpyArray& array) {
  constexpr std::pair<absl::string_view, TokenType> kTypes[] = {{"|u1", TokenType::kUint8},
                                                                {"<u2", TokenType::kUint16},
                                                                {"<i4", TokenType::kInt32},
                                                                {"<u4", TokenType::kUint32},
                                                                {"<i8", TokenType::kInt64}};
  for (const auto& [name, type] : kTypes) {
    if (name == array.type) return type;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the array is of ", array.type, "; tokens are uint8, uint16, int32, uint32 or int64"));
}

std::string IndexOf(absl::string_view path) { return absl::StrCat(path.substr(0, path.size() - 4), ".idx"); }

absl::StatusOr<TokenFile> WithIndex(TokenFile file) {
  const std::string path = IndexOf(file.path);
  ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> mapped, MappedFile::Open(path));
  const absl::StatusOr<MegatronIndex> index = ReadMegatronIndex(mapped->bytes());
  if (!index.ok()) return Annotate(index.status(), path);
  const size_t width = BytesOf(index->type);
  if (file.tokens.size() / width < static_cast<size_t>(index->tokens)) {
    return absl::InvalidArgumentError(absl::StrCat(file.path, " has ", file.tokens.size() / width,
                                                   " tokens, but its index ", path, " says ", index->tokens));
  }
  file.type = index->type;
  file.tokens = file.tokens.substr(0, static_cast<size_t>(index->tokens) * width);
  return file;
}

}  // namespace

size_t BytesOf(TokenType type) {
  switch (type) {
    case TokenType::kUint8:
      return 1;
    case TokenType::kUint16:
      return 2;
    case TokenType::kInt32:
    case TokenType::kUint32:
      return 4;
    case TokenType::kInt64:
      break;
  }
  return 8;
}

void CopyTokens(TokenType type, const char* from, int64_t count, int64_t* to) {
  switch (type) {
    case TokenType::kUint8:
      return CopyAs<uint8_t>(from, count, to);
    case TokenType::kUint16:
      return CopyAs<uint16_t>(from, count, to);
    case TokenType::kInt32:
      return CopyAs<int32_t>(from, count, to);
    case TokenType::kUint32:
      return CopyAs<uint32_t>(from, count, to);
    case TokenType::kInt64:
      return CopyAs<int64_t>(from, count, to);
  }
}

absl::Status CheckVocabulary(const TokenFile& file, int64_t vocab_size) {
  constexpr int64_t kChunk = 1 << 16;
  std::vector<int64_t> ids(kChunk);
  for (int64_t begin = 0; begin < file.size(); begin += kChunk) {
    const int64_t count = std::min(kChunk, file.size() - begin);
    CopyTokens(file.type, file.tokens.data() + static_cast<size_t>(begin) * BytesOf(file.type), count, ids.data());
    const auto end = ids.begin() + count;
    const auto bad = std::find_if(ids.begin(), end, [&](int64_t id) { return id < 0 || id >= vocab_size; });
    if (bad != end)
      return absl::InvalidArgumentError(absl::StrCat(file.path, ": token ", begin + (bad - ids.begin()), " is ", *bad,
                                                     ", but the vocabulary has ", vocab_size, " tokens"));
  }
  return absl::OkStatus();
}

absl::StatusOr<TokenFile> OpenTokenFile(const std::string& path, TokenType type) {
  TokenFile file{.path = path, .type = type};
  ASSIGN_OR_RETURN(file.file, MappedFile::Open(path));
  file.tokens = file.file->bytes();
  if (absl::EndsWith(path, ".bin") && PathExists(IndexOf(path))) return WithIndex(std::move(file));
  if (!absl::EndsWith(path, ".npy")) return file;
  const absl::StatusOr<NpyArray> header = ReadNpyHeader(file.tokens);
  if (!header.ok()) return Annotate(header.status(), path);
  const NpyArray& array = *header;
  if (array.shape.size() != 1)
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the array has ", array.shape.size(), " dimensions; tokens have one"));
  const absl::StatusOr<TokenType> of_array = TypeOf(array);
  if (!of_array.ok()) return Annotate(of_array.status(), path);
  file.type = *of_array;
  file.tokens = file.tokens.substr(array.begin, static_cast<size_t>(array.shape[0]) * array.width);
  return file;
}

absl::StatusOr<MegatronIndex> ReadMegatronIndex(absl::string_view file) {
  constexpr absl::string_view kMagic("MMIDIDX\0\0", 9);
  constexpr size_t kHead = 9 + 8 + 1 + 8 + 8;
  if (file.size() < kHead || !absl::StartsWith(file, kMagic) || NumberAt<uint64_t>(file, 9) != 1)
    return absl::InvalidArgumentError("this is not an index of Megatron, version 1");
  const int code = static_cast<uint8_t>(file[17]);
  const std::pair<int, TokenType> types[] = {
      {1, TokenType::kUint8}, {4, TokenType::kInt32}, {5, TokenType::kInt64}, {8, TokenType::kUint16}};
  const auto type = std::find_if(std::begin(types), std::end(types), [&](const auto& t) { return t.first == code; });
  if (type == std::end(types)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the index has the type ", code, "; tokens are uint8 (1), int32 (4), int64 (5) or uint16 (8)"));
  }
  const auto sequences = NumberAt<uint64_t>(file, 18), documents = NumberAt<uint64_t>(file, 26);
  const size_t left = file.size() - kHead;
  // Lengths (int32) and pointers (int64) of sequences, then documents (int64).
  if (sequences > left / 12 || documents > (left - sequences * 12) / 8)
    return absl::InvalidArgumentError("the index is shorter than its numbers of sequences and documents say");
  MegatronIndex index{.type = type->second, .sequences = static_cast<int64_t>(sequences)};
  const auto width = static_cast<int64_t>(BytesOf(index.type));
  for (size_t i = 0; i < sequences; ++i) {
    const auto length = NumberAt<int32_t>(file, kHead + 4 * i);
    const auto pointer = NumberAt<int64_t>(file, kHead + 4 * sequences + 8 * i);
    if (length < 0 || pointer != index.tokens * width)
      return absl::InvalidArgumentError(absl::StrCat("sequence ", i, " does not begin where the one before ends"));
    index.tokens += length;
  }
  return index;
}

}  // namespace composer
