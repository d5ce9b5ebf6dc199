// SPDX-License-Identifier: Apache-2.0
#include <torch/types.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "data/mds/cached_shards.h"
#include "trainer/core/torch_status.h"
#include "trainer/data/images/image_sources.h"
#include "trainer/data/sample_order.h"

namespace composer {
namespace {

constexpr size_t kMaxNames = 1000000;

// Archives that are read soon are fetched ahead; ShardsAhead asks for one again after so many others.
constexpr size_t kMostAhead = 256;

class WebDataset final : public SampleSource {
 public:
  WebDataset(std::vector<TarArchive> archives, WebDatasetOptions options)
      : archives_(std::move(archives)), options_(std::move(options)) {
    for (const TarArchive& archive : archives_) ends_.push_back(size() + static_cast<int64_t>(archive.samples.size()));
    if (options_.cache.local.empty()) return;
    ahead_ = std::make_unique<ShardsAhead>([this](size_t archive) { archives_[archive].open().status().IgnoreError(); },
                                           kMostAhead);
  }

  int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  Sample Get(int64_t index) const override {
    const size_t number = ArchiveOf(index);
    const TarArchive& archive = archives_[number];
    const TarSample& record = archive.samples[static_cast<size_t>(index - (number == 0 ? 0 : ends_[number - 1]))];
    const absl::StatusOr<OwnedBytes> file = archive.open();
    ThrowIfError(file.ok() ? absl::OkStatus() : Annotate(file.status(), archive.place));
    Sample sample;
    sample.texts["path"] = absl::StrCat(archive.place, ": ", record.key);
    for (const TarSample::Part& part : record.parts) {
      const absl::string_view bytes = file->bytes.substr(part.begin, part.size);
      if (part.ending != options_.target) {
        sample.texts[part.ending] = std::string(bytes);
        continue;
      }
      int64_t target = 0;
      TORCH_CHECK_VALUE(absl::SimpleAtoi(absl::StripAsciiWhitespace(bytes), &target), sample.texts["path"], ".",
                        part.ending, " holds `", std::string(bytes.substr(0, 60)), "`, which is not a whole number");
      sample.tensors["targets"] = torch::tensor(target);
    }
    return sample;
  }

  void WillLoad(absl::Span<const int64_t> indices) const override {
    if (ahead_ == nullptr) return;
    for (const int64_t index : indices) ahead_->Want(ArchiveOf(index));
  }

  // With a bounded cache, archive by archive, so that each is fetched once an epoch: blocks of samples are shuffled
  // whose archives fill half of the cache.
  std::shared_ptr<const SampleOrder> OwnOrder(const OrderRequest& request) const override {
    if (!options_.cache.cache_limit || !request.shuffle) return nullptr;
    OrderConfig config;
    OrderStream& shards = config.streams.emplace_back();
    double bytes = 0;
    for (const TarArchive& archive : archives_) {
      shards.shard_samples.push_back(static_cast<int64_t>(archive.samples.size()));
      bytes += static_cast<double>(archive.bytes);
    }
    config.seed = MixSeed(request.seed, 0, 0) >> 33;  // it counts epochs on from here
    config.shuffle = ShuffleAlgorithm::kPy1br;
    const double share = static_cast<double>(*options_.cache.cache_limit) / 2 / std::max(1.0, bytes);
    config.block_size = std::max<int64_t>(2, static_cast<int64_t>(static_cast<double>(size()) * std::min(1.0, share)));
    return MakeShardOrder(std::move(config));
  }

 private:
  size_t ArchiveOf(int64_t index) const {
    return static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
  }

  const std::vector<TarArchive> archives_;
  const WebDatasetOptions options_;
  std::vector<int64_t> ends_;           // of each archive's samples
  std::unique_ptr<ShardsAhead> ahead_;  // null: all archives are on this node
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

absl::StatusOr<std::shared_ptr<const SampleSource>> OpenWebDataset(const WebDatasetOptions& options,
                                                                   const StoreOpener& open_store) {
  std::vector<std::string> names;
  for (const std::string& path : options.paths) {
    ASSIGN_OR_RETURN(const std::vector<std::string> expanded, ExpandBraces(path));
    names.insert(names.end(), expanded.begin(), expanded.end());
  }
  const auto remote = std::find_if(names.begin(), names.end(), [](const auto& name) { return IsRemotePlace(name); });
  if (remote != names.end() && options.cache.local.empty())
    return absl::InvalidArgumentError(
        absl::StrCat("local: required for ", *remote, ": the folder for the tar files that are fetched"));
  ASSIGN_OR_RETURN(std::vector<TarArchive> archives, OpenTarArchives(names, options.cache, open_store));
  std::erase_if(archives, [](const TarArchive& archive) { return archive.samples.empty(); });
  if (archives.empty()) return absl::InvalidArgumentError(absl::StrCat(names.front(), ": there is no sample in it"));
  return std::make_shared<const WebDataset>(std::move(archives), options);
}

}  // namespace composer
