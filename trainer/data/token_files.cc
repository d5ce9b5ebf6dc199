// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/token_files.h"

#include <sys/mman.h>
#include <torch/types.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/text/record_files.h"

namespace composer {
namespace {

struct SampledFile {
  TokenFile file;
  int64_t first_sample = 0;
};

class TokenFiles final : public Dataset {
 public:
  TokenFiles(std::vector<SampledFile> files, int64_t size, int64_t length)
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
      CopyTokens(FileOf(index).file.type, bytes.data(), length_ + 1, row);
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
  const SampledFile& FileOf(int64_t sample) const {
    const auto after = std::upper_bound(files_.begin(), files_.end(), sample,
                                        [](int64_t i, const SampledFile& file) { return i < file.first_sample; });
    return *std::prev(after);
  }
  absl::string_view BytesOfSample(int64_t sample) const {
    const auto& [file, first_sample] = FileOf(sample);
    const size_t width = BytesOf(file.type);
    const auto begin = static_cast<size_t>((sample - first_sample) * length_) * width;
    return file.tokens.substr(begin, static_cast<size_t>(length_ + 1) * width);
  }

  const std::vector<SampledFile> files_;
  const int64_t size_, length_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> OpenTokenFiles(const TokenFilesOptions& options) {
  if (options.max_seq_len < 1)
    return absl::InvalidArgumentError(absl::StrCat("max_seq_len: must be at least 1, got ", options.max_seq_len));
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ExpandPaths(options.paths));
  std::vector<SampledFile> files;
  int64_t samples = 0;
  for (const std::string& path : paths) {
    if (paths.size() > 1 && absl::EndsWith(path, ".idx")) continue;  // belongs to a .bin file
    ASSIGN_OR_RETURN(TokenFile file, OpenTokenFile(path, options.type));
    if (options.vocab_size > 0) RETURN_IF_ERROR(CheckVocabulary(file, options.vocab_size));
    const int64_t first = samples;
    const int64_t more = std::max<int64_t>(0, (file.size() - 1) / options.max_seq_len);
    samples += more;
    if (more > 0) files.push_back({std::move(file), first});
  }
  if (samples == 0)
    return absl::InvalidArgumentError(absl::StrCat(options.paths.front(), ": no file has the max_seq_len + 1 = ",
                                                   options.max_seq_len + 1, " tokens of one sample"));
  return std::make_shared<const TokenFiles>(std::move(files), samples, options.max_seq_len);
}

}  // namespace composer
