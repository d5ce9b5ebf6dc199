// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "data/codec/tar.h"
#include "data/text/record_files.h"
#include "storage/mapped_file.h"
#include "trainer/data/images/image_sources.h"

namespace composer {
namespace {

constexpr size_t kMaxNames = 1000000;

struct TarSample {
  size_t archive = 0;
  std::string key;
  std::vector<std::pair<std::string, absl::string_view>> files;  // by ending
};

struct Archive {
  std::string path;
  std::shared_ptr<const MappedFile> file;
};

// Adds the samples of an archive.
absl::Status AddSamples(const Archive& archive, size_t number, std::vector<TarSample>& samples) {
  absl::StatusOr<std::vector<TarEntry>> entries = ReadTar(archive.file->bytes());
  if (!entries.ok()) return Annotate(entries.status(), archive.path);
  for (TarEntry& entry : *entries) {
    const size_t slash = entry.name.rfind('/'), begin = slash == std::string::npos ? 0 : slash + 1;
    const size_t dot = entry.name.find('.', begin);
    if (dot == std::string::npos || dot == begin) continue;
    const std::string key = entry.name.substr(0, dot), ending = entry.name.substr(dot + 1);
    if (samples.empty() || samples.back().archive != number || samples.back().key != key)
      samples.push_back({number, key, {}});
    for (const auto& file : samples.back().files) {
      if (file.first == ending)
        return absl::DataLossError(absl::StrCat(archive.path, ": sample ", key, " has two files .", ending));
    }
    samples.back().files.emplace_back(ending, entry.bytes);
  }
  return absl::OkStatus();
}

class WebDataset final : public SampleSource {
 public:
  WebDataset(std::vector<Archive> archives, std::vector<TarSample> samples, std::string target)
      : archives_(std::move(archives)), samples_(std::move(samples)), target_(std::move(target)) {}
  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  Sample Get(int64_t index) const override {
    const TarSample& record = samples_[static_cast<size_t>(index)];
    Sample sample;
    sample.texts["path"] = absl::StrCat(archives_[record.archive].path, ": ", record.key);
    for (const auto& [ending, bytes] : record.files) {
      if (ending != target_) {
        sample.texts[ending] = std::string(bytes);
        continue;
      }
      int64_t target = 0;
      TORCH_CHECK_VALUE(absl::SimpleAtoi(absl::StripAsciiWhitespace(bytes), &target), sample.texts["path"], ".", ending,
                        " holds `", std::string(bytes.substr(0, 60)), "`, which is not a whole number");
      sample.tensors["targets"] = torch::tensor(target);
    }
    return sample;
  }

 private:
  const std::vector<Archive> archives_;
  const std::vector<TarSample> samples_;
  const std::string target_;
};

// Returns what stands between one pair of braces stands for.
absl::StatusOr<std::vector<std::string>> Choices(absl::string_view inside) {
  const std::pair<absl::string_view, absl::string_view> range = absl::StrSplit(inside, absl::MaxSplits("..", 1));
  uint64_t first = 0, last = 0;
  if (inside.find("..") == absl::string_view::npos) return absl::StrSplit(inside, ',');
  if (!absl::SimpleAtoi(range.first, &first) || !absl::SimpleAtoi(range.second, &last) || last < first ||
      last - first >= kMaxNames)
    return absl::InvalidArgumentError(absl::StrCat("`{", inside, "}`: a range is two rising numbers, {000..012}"));
  std::vector<std::string> choices;
  const auto width = static_cast<int>(range.first.size());
  for (uint64_t i = first; i <= last; ++i) choices.push_back(absl::StrFormat("%0*u", width, i));
  return choices;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandBraces(const std::string& text) {
  std::vector<std::string> made = {""};
  for (size_t at = 0; at < text.size();) {
    const size_t open = text.find('{', at), close = open == std::string::npos ? open : text.find('}', open);
    const std::string before = text.substr(at, close == std::string::npos ? close : open - at);
    std::vector<std::string> choices = {""};
    if (close != std::string::npos) {
      ASSIGN_OR_RETURN(choices, Choices(absl::string_view(text).substr(open + 1, close - open - 1)));
    }
    if (made.size() * choices.size() > kMaxNames)
      return absl::InvalidArgumentError(absl::StrCat(text, ": it stands for more than a million files"));
    std::vector<std::string> longer;
    for (const std::string& name : made) {
      for (const std::string& choice : choices) longer.push_back(absl::StrCat(name, before, choice));
    }
    made = std::move(longer);
    at = close == std::string::npos ? text.size() : close + 1;
  }
  return made;
}

absl::StatusOr<std::shared_ptr<const SampleSource>> OpenWebDataset(const WebDatasetOptions& options) {
  std::vector<std::string> names;
  for (const std::string& path : options.paths) {
    ASSIGN_OR_RETURN(const std::vector<std::string> expanded, ExpandBraces(path));
    names.insert(names.end(), expanded.begin(), expanded.end());
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ExpandPaths(names));
  std::vector<Archive> archives;
  std::vector<TarSample> samples;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
    archives.push_back({path, std::move(file)});
    RETURN_IF_ERROR(AddSamples(archives.back(), archives.size() - 1, samples));
  }
  if (samples.empty()) return absl::InvalidArgumentError(absl::StrCat(paths.front(), ": there is no sample in it"));
  return std::make_shared<const WebDataset>(std::move(archives), std::move(samples), options.target);
}

}  // namespace composer
