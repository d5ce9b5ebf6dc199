// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/tables/table_source.h"

#include <torch/types.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/mds/cached_shards.h"
#include "trainer/core/torch_status.h"
#include "trainer/data/sample_order.h"

namespace composer {
namespace {

constexpr size_t kNoColumn = static_cast<size_t>(-1);
constexpr size_t kMostFilesAhead = 256;

void AddTableValue(const std::string& name, ArrowValue& value, Sample& sample) {
  switch (value.kind) {
    case ArrowKind::kNull:
      return;
    case ArrowKind::kInteger:
      sample.tensors[name] = torch::tensor(value.integer);
      return;
    case ArrowKind::kNumber:
      sample.tensors[name] = torch::tensor(static_cast<float>(value.number));
      return;
    case ArrowKind::kIntegers:
      sample.tensors[name] = torch::tensor(value.integers, at::kLong);
      return;
    case ArrowKind::kNumbers:
      sample.tensors[name] = torch::tensor(value.numbers, at::kFloat);
      return;
    case ArrowKind::kText:
    case ArrowKind::kBytes:
    case ArrowKind::kJson:
      break;
  }
  sample.texts[name] = std::move(value.text);
}

class TableSource final : public SampleSource {
 public:
  TableSource(std::shared_ptr<const TableFiles> files, const TableOptions& options)
      : files_(std::move(files)), options_(options) {
    for (const std::string& feature : options_.features) features_.push_back(ColumnNumber(feature));
    if (!options_.target.empty()) target_ = ColumnNumber(options_.target);
    if (!options_.fetch.local.empty())
      ahead_ = std::make_unique<ShardsAhead>([this](size_t file) { files_->Fetch(file); }, kMostFilesAhead);
  }

  int64_t size() const override { return files_->size(); }

  Sample Get(int64_t index) const override {
    std::vector<ArrowValue> row;
    ThrowIfError(files_->Read(index, row));
    Sample sample;
    if (!features_.empty()) sample.tensors["inputs"] = Inputs(index, row);
    if (target_ != kNoColumn) {
      Require(index, row, target_);
      sample.tensors["targets"] = torch::tensor(row[target_].integer);
    }
    for (size_t i = 0; i < row.size(); ++i) {
      if (i != target_ && std::find(features_.begin(), features_.end(), i) == features_.end())
        AddTableValue(files_->columns()[i].name, row[i], sample);
    }
    return sample;
  }

  void WillLoad(absl::Span<const int64_t> indices) const override {
    if (ahead_ == nullptr) return;
    for (const int64_t index : indices) ahead_->Want(files_->FileOf(index));
  }

  std::shared_ptr<const SampleOrder> OwnOrder(const OrderRequest& request) const override {
    double decoded = 0, stored = 0;  // bytes
    OrderStream groups, files;
    for (const ArrowGroup& group : files_->groups()) {
      decoded += static_cast<double>(group.bytes);
      groups.shard_samples.push_back(group.rows);
    }
    for (const TableFile& file : files_->files()) {
      stored += static_cast<double>(file.bytes);
      files.shard_samples.push_back(0);
      for (const ArrowGroup& group : file.groups) files.shard_samples.back() += group.rows;
    }
    const std::optional<int64_t> limit = options_.fetch.cache_limit;
    if (decoded == 0 || !request.shuffle) return nullptr;
    double share = static_cast<double>(options_.shuffle_bytes) / decoded;  // of all rows that a block has
    if (limit) share = std::min(share, static_cast<double>(*limit) / 4 / stored);
    OrderConfig config;
    config.streams.push_back(std::move(limit ? files : groups));
    config.seed = MixSeed(request.seed, 0, 0) >> 33;  // it counts epochs on from here
    config.shuffle = ShuffleAlgorithm::kPy1br;
    config.block_size = std::max<int64_t>(2, static_cast<int64_t>(share * static_cast<double>(size())));
    return MakeShardOrder(std::move(config));
  }

  // Returns what is wrong with the columns that features and target name, or "".
  std::string Misfit() const {
    const auto check = [this](size_t column, bool whole) -> std::string {
      const ArrowColumn& known = files_->columns()[column];
      if (known.kind == ArrowKind::kInteger || (!whole && known.kind == ArrowKind::kNumber)) return "";
      return absl::StrCat("column `", known.name, "` does not hold ", whole ? "whole numbers" : "numbers");
    };
    std::string wrong = target_ == kNoColumn ? "" : check(target_, true);
    for (size_t i = 0; wrong.empty() && i < features_.size(); ++i) wrong = check(features_[i], false);
    return wrong;
  }

 private:
  size_t ColumnNumber(const std::string& name) const {
    const std::vector<ArrowColumn>& columns = files_->columns();
    const auto found = std::find_if(columns.begin(), columns.end(), [&](const auto& one) { return one.name == name; });
    return static_cast<size_t>(found - columns.begin());
  }
  void Require(int64_t index, const std::vector<ArrowValue>& row, size_t column) const {
    TORCH_CHECK_VALUE(row[column].kind != ArrowKind::kNull, files_->Where(index), ": column `",
                      files_->columns()[column].name, "` holds no value");
  }
  at::Tensor Inputs(int64_t index, const std::vector<ArrowValue>& row) const {
    at::Tensor inputs = torch::empty({static_cast<int64_t>(features_.size())});
    float* next = inputs.mutable_data_ptr<float>();
    for (const size_t column : features_) {
      Require(index, row, column);
      const ArrowValue& value = row[column];
      *next++ =
          value.kind == ArrowKind::kInteger ? static_cast<float>(value.integer) : static_cast<float>(value.number);
    }
    return inputs;
  }

  const std::shared_ptr<const TableFiles> files_;
  const TableOptions options_;
  std::vector<size_t> features_;
  size_t target_ = kNoColumn;
  std::unique_ptr<ShardsAhead> ahead_;  // null: all files are on this node
};

}  // namespace

absl::StatusOr<std::shared_ptr<const SampleSource>> OpenTables(const TableOptions& options,
                                                               const StoreOpener& open_store) {
  const auto remote = std::find_if(options.paths.begin(), options.paths.end(), IsRemotePlace);
  if (remote != options.paths.end() && options.fetch.local.empty())
    return absl::InvalidArgumentError(
        absl::StrCat("local: required for ", *remote, ": the folder for the files that are fetched"));
  TableFilesOptions files_options{.paths = options.paths, .format = options.format};
  files_options.columns = {options.columns, options.if_present};
  files_options.keep_bytes = 2 * options.shuffle_bytes;
  files_options.fetch = options.fetch;
  files_options.open_store = open_store;
  // Mapped rows keep their files in the cache.
  if (options.format == TableFormat::kArrow && options.fetch.cache_limit)
    files_options.keep_bytes = std::min(files_options.keep_bytes, *options.fetch.cache_limit / 4);
  std::vector<std::string> wanted = options.features;
  if (!options.target.empty()) wanted.push_back(options.target);
  std::vector<std::string>& read = files_options.columns.names;
  for (const std::string& name : wanted) {
    if (!read.empty() && std::find(read.begin(), read.end(), name) == read.end()) read.push_back(name);
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const TableFiles> files, TableFiles::Open(files_options));
  const std::vector<ArrowColumn>& columns = files->columns();
  for (const std::string& name : wanted) {
    if (std::none_of(columns.begin(), columns.end(), [&](const auto& column) { return column.name == name; }))
      return absl::InvalidArgumentError(absl::StrCat(files->paths().front(), ": there is no column `", name, "`"));
  }
  auto source = std::make_shared<const TableSource>(std::move(files), options);
  if (const std::string wrong = source->Misfit(); !wrong.empty()) return absl::InvalidArgumentError(wrong);
  return source;
}

}  // namespace composer
