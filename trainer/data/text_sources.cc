// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/text_sources.h"

#include <torch/types.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/format/json.h"
#include "base/status_macros.h"
#include "data/text/gzip_file.h"
#include "data/text/record_files.h"

namespace composer {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxTextFile = int64_t{1} << 30;

bool IsIntegral(const Json& value) { return value.is_number_integer() || value.is_boolean(); }

int64_t IntegerOf(const Json& value) {
  return value.is_boolean() ? static_cast<int64_t>(value.get<bool>()) : value.get<int64_t>();
}

bool IsRowOfNumbers(const Json& value) {
  return value.is_array() && !value.empty() && std::all_of(value.begin(), value.end(), [](const Json& item) {
           return item.is_number() || item.is_boolean();
         });
}

at::Tensor RowOf(const Json& list) {
  if (!std::all_of(list.begin(), list.end(), IsIntegral)) return torch::tensor(list.get<std::vector<float>>());
  std::vector<int64_t> row;
  for (const Json& item : list) row.push_back(IntegerOf(item));
  return torch::tensor(row);
}

void AddValue(const std::string& key, const Json& value, Sample& sample) {
  if (value.is_null()) return;
  if (value.is_string()) {
    sample.texts[key] = value.get<std::string>();
  } else if (IsIntegral(value)) {
    sample.tensors[key] = torch::tensor(IntegerOf(value));
  } else if (value.is_number()) {
    sample.tensors[key] = torch::tensor(value.get<float>());
  } else if (IsRowOfNumbers(value)) {
    sample.tensors[key] = RowOf(value);
  } else {
    sample.texts[key] = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

class JsonLines final : public SampleSource {
 public:
  explicit JsonLines(RecordFiles records) : records_(std::move(records)) {}
  int64_t size() const override { return records_.size(); }
  Sample Get(int64_t index) const override {
    const absl::string_view line = records_[index];
    const Json object = ParseJson(line);
    TORCH_CHECK_VALUE(object.is_object(), records_.Where(index), ": this line is not a JSON object: `",
                      std::string(line.substr(0, 100)), "`");
    Sample sample;
    for (const auto& [key, value] : object.items()) AddValue(key, value, sample);
    return sample;
  }

 private:
  const RecordFiles records_;
};

class Csv final : public SampleSource {
 public:
  Csv(RecordFiles records, const CsvOptions& options, std::vector<std::string> columns)
      : records_(std::move(records)), separator_(options.separator), columns_(std::move(columns)) {
    for (const std::string& feature : options.features) features_.push_back(ColumnOf(feature));
    if (!options.target.empty()) target_ = ColumnOf(options.target);
  }

  int64_t size() const override { return records_.size(); }
  Sample Get(int64_t index) const override {
    const std::vector<std::string> fields = SplitCsv(records_[index], separator_);
    TORCH_CHECK_VALUE(fields.size() == columns_.size(), records_.Where(index), ": this record has ", fields.size(),
                      " fields; the first line names ", columns_.size());
    Sample sample;
    for (size_t i = 0; i < fields.size(); ++i) {
      const bool is_number = i == target_ || std::find(features_.begin(), features_.end(), i) != features_.end();
      if (!is_number) sample.texts[columns_[i]] = fields[i];
    }
    if (!features_.empty()) sample.tensors["inputs"] = Inputs(index, fields);
    if (target_ == kNone) return sample;
    int64_t target = 0;
    TORCH_CHECK_VALUE(absl::SimpleAtoi(fields[target_], &target), records_.Where(index), ": column `",
                      columns_[target_], "` holds `", fields[target_], "`, which is not a whole number");
    sample.tensors["targets"] = torch::tensor(target);
    return sample;
  }

 private:
  static constexpr size_t kNone = static_cast<size_t>(-1);

  size_t ColumnOf(const std::string& name) const {
    return static_cast<size_t>(std::find(columns_.begin(), columns_.end(), name) - columns_.begin());
  }
  at::Tensor Inputs(int64_t index, const std::vector<std::string>& fields) const {
    at::Tensor inputs = torch::empty({static_cast<int64_t>(features_.size())});
    float* next = inputs.mutable_data_ptr<float>();
    for (const size_t column : features_) {
      TORCH_CHECK_VALUE(absl::SimpleAtof(fields[column], next++), records_.Where(index), ": column `", columns_[column],
                        "` holds `", fields[column], "`, which is not a number");
    }
    return inputs;
  }

  const RecordFiles records_;
  const char separator_;
  const std::vector<std::string> columns_;
  std::vector<size_t> features_;
  size_t target_ = kNone;
};

class Lines final : public SampleSource {
 public:
  explicit Lines(RecordFiles records) : records_(std::move(records)) {}
  int64_t size() const override { return records_.size(); }
  Sample Get(int64_t index) const override {
    Sample sample;
    sample.texts["text"] = std::string(records_[index]);
    return sample;
  }

 private:
  const RecordFiles records_;
};

class TextFiles final : public SampleSource {
 public:
  explicit TextFiles(std::vector<std::string> files) : files_(std::move(files)) {}
  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  Sample Get(int64_t index) const override {
    absl::StatusOr<std::string> text = ReadMaybeGzipFile(files_[static_cast<size_t>(index)], kMaxTextFile);
    TORCH_CHECK_VALUE(text.ok(), text.status().message());
    Sample sample;
    sample.texts["text"] = *std::move(text);
    return sample;
  }

 private:
  const std::vector<std::string> files_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const SampleSource>> OpenJsonLines(const std::vector<std::string>& paths) {
  ASSIGN_OR_RETURN(RecordFiles records, RecordFiles::Open(paths, RecordKind::kLines));
  return std::make_shared<const JsonLines>(std::move(records));
}

absl::StatusOr<std::shared_ptr<const SampleSource>> OpenCsv(const CsvOptions& options) {
  ASSIGN_OR_RETURN(RecordFiles records, RecordFiles::Open(options.paths, RecordKind::kCsv, /*header=*/true));
  std::vector<std::string> columns = CsvColumns(records, options.separator);
  std::vector<std::string> wanted = options.features;
  if (!options.target.empty()) wanted.push_back(options.target);
  for (const std::string& name : wanted) {
    if (std::find(columns.begin(), columns.end(), name) == columns.end())
      return absl::InvalidArgumentError(
          absl::StrCat("there is no column `", name, "`; there are ", absl::StrJoin(columns, ", ")));
  }
  return std::make_shared<const Csv>(std::move(records), options, std::move(columns));
}

absl::StatusOr<std::shared_ptr<const SampleSource>> OpenTexts(const std::vector<std::string>& paths, TextUnit unit) {
  if (unit == TextUnit::kFile) {
    ASSIGN_OR_RETURN(std::vector<std::string> files, ExpandPaths(paths));
    return std::make_shared<const TextFiles>(std::move(files));
  }
  ASSIGN_OR_RETURN(RecordFiles records, RecordFiles::Open(paths, RecordKind::kLines));
  return std::make_shared<const Lines>(std::move(records));
}

}  // namespace composer
