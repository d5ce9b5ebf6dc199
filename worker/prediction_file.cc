// SPDX-License-Identifier: Apache-2.0
#include "worker/prediction_file.h"

#include <torch/types.h>

#include <cmath>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "checkpoint/format/dtype.h"
#include "checkpoint/format/safetensors.h"

namespace composer {
namespace {

bool IsJson(const std::string& path) { return absl::EndsWith(path, ".jsonl"); }

// JSON has no NaN and no infinity, so null stands for them.
void AppendNumber(const at::Tensor& number, std::string& text) {
  if (number.scalar_type() == at::kBool) {
    absl::StrAppend(&text, number.item<bool>() ? "true" : "false");
  } else if (!number.is_floating_point()) {
    absl::StrAppend(&text, number.item<int64_t>());
  } else if (const double value = number.item<double>(); !std::isfinite(value)) {
    absl::StrAppend(&text, "null");
  } else {
    // As many digits as it takes to read the same number back.
    absl::StrAppendFormat(&text, "%.*g", number.scalar_type() == at::kDouble ? 17 : 9, value);
  }
}

void AppendJson(const at::Tensor& tensor, std::string& text) {
  if (tensor.dim() == 0) return AppendNumber(tensor, text);
  text += '[';
  for (int64_t i = 0; i < tensor.size(0); ++i) {
    if (i > 0) text += ',';
    AppendJson(tensor[i], text);
  }
  text += ']';
}

}  // namespace

absl::Status PredictionFile::Open() {
  file_.open(PartialPath(), std::ios::binary | std::ios::trunc);
  if (file_) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--output: ", PartialPath(), " cannot be written"));
}

void PredictionFile::Add(const at::Tensor& rows) {
  for (int64_t i = 0; IsJson(path_) && i < rows.size(0); ++i) {
    std::string line = absl::StrCat("{\"index\":", rows_ + i, ",\"output\":");
    AppendJson(rows[i], line);
    file_ << line << "}\n";
  }
  if (!IsJson(path_)) kept_.push_back(rows);
  rows_ += rows.size(0);
}

absl::Status PredictionFile::WriteTensor() {
  for (const at::Tensor& rows : kept_) {
    const bool fits =
        rows.scalar_type() == kept_[0].scalar_type() && rows.sizes().slice(1) == kept_[0].sizes().slice(1);
    if (!fits)
      return absl::InvalidArgumentError(
          "--output: the outputs of the samples differ in shape or dtype, and one tensor cannot hold them; write "
          "x.jsonl");
  }
  const at::Tensor all = torch::cat(kept_).contiguous();
  std::vector<SafetensorsEntry> entries = {
      {.name = "outputs", .dtype = std::string(DTypeName(all.scalar_type())), .shape = all.sizes().vec()}};
  ASSIGN_OR_RETURN(const std::string header, LayOutSafetensors(&entries));
  file_ << header;
  file_.write(static_cast<const char*>(all.const_data_ptr()), static_cast<std::streamsize>(all.nbytes()));
  return absl::OkStatus();
}

absl::Status PredictionFile::Finish() {
  if (!IsJson(path_)) RETURN_IF_ERROR(WriteTensor());
  file_.close();
  if (!file_)
    return absl::UnavailableError(absl::StrCat("--output: ", PartialPath(), " could not be written to its end"));
  std::error_code error;
  std::filesystem::rename(PartialPath(), path_, error);
  if (error) return absl::InvalidArgumentError(absl::StrCat("--output: ", path_, ": ", error.message()));
  return absl::OkStatus();
}

}  // namespace composer
