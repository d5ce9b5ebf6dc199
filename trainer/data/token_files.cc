// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/token_files.h"

#include <sys/mman.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "storage/mapped_file.h"
#include "trainer/data/record_files.h"

namespace composer {
namespace {

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

template <typename T>
void CopyAs(const char* from, int64_t count, int64_t* to) {
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    to[i] = static_cast<int64_t>(value);
  }
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

struct TokenFile {
  std::string path;
  std::shared_ptr<const MappedFile> file;
  TokenType type;
  absl::string_view tokens;  // bytes
  int64_t first_sample = 0;

  int64_t size() const { return static_cast<int64_t>(tokens.size() / BytesOf(type)); }
};

class TokenFiles final : public Dataset {
 public:
  TokenFiles(std::vector<TokenFile> files, int64_t size, int64_t length)
      : files_(std::move(files)), size_(size), length_(length) {}

  int64_t size() const override { return size_; }

  Batch Load(absl::Span<const int64_t> indices) const override {
    Batch batch;
    batch.num_samples = static_cast<int64_t>(indices.size());
    batch.num_tokens = batch.num_samples * length_;
    at::Tensor rows = torch::empty({batch.num_samples, length_ + 1}, at::kLong);
    int64_t* row = rows.mutable_data_ptr<int64_t>();
    for (const int64_t index : indices) {
      TORCH_CHECK_INDEX(0 <= index && index < size_, "sample ", index, " of ", size_);
      const absl::string_view bytes = BytesOfSample(index);
      CopyTokens(FileOf(index).type, bytes.data(), length_ + 1, row);
      row += length_ + 1;
    }
    batch.inputs = rows.slice(1, 0, length_).contiguous();
    batch.targets = rows.slice(1, 1).contiguous();
    return batch;
  }

  void WillLoad(int64_t /*epoch*/, absl::Span<const int64_t> indices) const override {
    static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    for (const int64_t index : indices) {
      const absl::string_view bytes = BytesOfSample(index);
      const auto begin = reinterpret_cast<uintptr_t>(bytes.data()) / page * page;
      const auto end = reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size();
      madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED);  // only advice: a failure changes nothing
    }
  }

 private:
  const TokenFile& FileOf(int64_t sample) const {
    const auto after = std::upper_bound(files_.begin(), files_.end(), sample,
                                        [](int64_t i, const TokenFile& file) { return i < file.first_sample; });
    return *std::prev(after);
  }
  absl::string_view BytesOfSample(int64_t sample) const {
    const TokenFile& file = FileOf(sample);
    const size_t width = BytesOf(file.type);
    const auto begin = static_cast<size_t>((sample - file.first_sample) * length_) * width;
    return file.tokens.substr(begin, static_cast<size_t>(length_ + 1) * width);
  }

  const std::vector<TokenFile> files_;
  const int64_t size_, length_;
};

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
  if (!absl::EndsWith(path, ".npy")) return file;
  const absl::StatusOr<NpyArray> header = ReadNpyHeader(file.tokens);
  if (!header.ok()) return Annotate(header.status(), path);
  const NpyArray& array = *header;
  if (array.shape.size() != 1)
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the array has ", array.shape.size(), " dimensions; tokens have one"));
  file.type = array.type;
  file.tokens = file.tokens.substr(array.begin, static_cast<size_t>(array.shape[0]) * BytesOf(array.type));
  return file;
}

// Returns what follows `'key':` in the Python dictionary that is a .npy header; "" if there is none.
absl::string_view ValueIn(absl::string_view header, absl::string_view key) {
  const std::string quoted = absl::StrCat("'", key, "':");
  const size_t at = header.find(quoted);
  return at == absl::string_view::npos ? "" : absl::StripLeadingAsciiWhitespace(header.substr(at + quoted.size()));
}

absl::Status ReadShape(absl::string_view text, NpyArray& array) {
  const size_t end = text.find(')');
  if (text.empty() || text[0] != '(' || end == absl::string_view::npos)
    return absl::InvalidArgumentError("the .npy header has no shape");
  for (const absl::string_view part : absl::StrSplit(text.substr(1, end - 1), ',')) {
    int64_t size = 0;
    if (absl::StripAsciiWhitespace(part).empty()) continue;
    if (!absl::SimpleAtoi(part, &size) || size < 0 || array.shape.size() == 8)
      return absl::InvalidArgumentError("the .npy header has no shape that can be read");
    array.shape.push_back(size);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NpyArray> ReadNpyHeader(absl::string_view file) {
  constexpr absl::string_view kMagic("\x93NUMPY", 6);
  if (file.size() < 12 || !absl::StartsWith(file, kMagic) || file[6] < 1 || file[6] > 3)
    return absl::InvalidArgumentError("this is not a .npy file of format version 1, 2 or 3");
  const size_t width = file[6] == 1 ? 2 : 4;
  size_t length = 0;
  for (size_t i = 0; i < width; ++i) length |= static_cast<size_t>(static_cast<uint8_t>(file[8 + i])) << (8 * i);
  NpyArray array{.begin = 8 + width + length};
  if (length > file.size() || array.begin > file.size())
    return absl::InvalidArgumentError("the .npy header is longer than the file");
  const absl::string_view header = file.substr(8 + width, length);
  const std::pair<absl::string_view, TokenType> types[] = {{"'|u1'", TokenType::kUint8},
                                                           {"'<u2'", TokenType::kUint16},
                                                           {"'<i4'", TokenType::kInt32},
                                                           {"'<u4'", TokenType::kUint32},
                                                           {"'<i8'", TokenType::kInt64}};
  const absl::string_view descr = ValueIn(header, "descr");
  const auto type = std::find_if(std::begin(types), std::end(types),
                                 [&](const auto& known) { return absl::StartsWith(descr, known.first); });
  if (type == std::end(types))
    return absl::InvalidArgumentError(
        absl::StrCat("the array is of ", descr.substr(0, std::min<size_t>(descr.find(','), 20)),
                     "; tokens are uint8, uint16, int32, uint32 or int64, little-endian"));
  array.type = type->second;
  if (!absl::StartsWith(ValueIn(header, "fortran_order"), "False"))
    return absl::InvalidArgumentError("the array is in Fortran order");
  RETURN_IF_ERROR(ReadShape(ValueIn(header, "shape"), array));
  size_t left = (file.size() - array.begin) / BytesOf(array.type);
  for (const int64_t size : array.shape) {
    if (size > 0 && left / static_cast<size_t>(size) == 0)
      return absl::InvalidArgumentError("the file is shorter than the shape in its header says");
    if (size > 0) left /= static_cast<size_t>(size);
  }
  return array;
}

absl::StatusOr<std::shared_ptr<const Dataset>> OpenTokenFiles(const TokenFilesOptions& options) {
  if (options.max_seq_len < 1)
    return absl::InvalidArgumentError(absl::StrCat("max_seq_len: must be at least 1, got ", options.max_seq_len));
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ExpandPaths(options.paths));
  std::vector<TokenFile> files;
  int64_t samples = 0;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(TokenFile file, OpenTokenFile(path, options.type));
    if (options.vocab_size > 0) RETURN_IF_ERROR(CheckVocabulary(file, options.vocab_size));
    file.first_sample = samples;
    const int64_t more = std::max<int64_t>(0, (file.size() - 1) / options.max_seq_len);
    samples += more;
    if (more > 0) files.push_back(std::move(file));
  }
  if (samples == 0)
    return absl::InvalidArgumentError(absl::StrCat(options.paths.front(), ": no file has the max_seq_len + 1 = ",
                                                   options.max_seq_len + 1, " tokens of one sample"));
  return std::make_shared<const TokenFiles>(std::move(files), samples, options.max_seq_len);
}

}  // namespace composer
