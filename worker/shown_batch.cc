// SPDX-License-Identifier: Apache-2.0
#include "worker/shown_batch.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "trainer/data/collators.h"

namespace composer {
namespace {

constexpr int64_t kShownNumbers = 12;
constexpr int kMostSide = 1 << 16;
const int64_t kIgnored = PadOptions().ignored_id;

// NumPy's names, which are also Python's of torch.
absl::string_view TypeName(at::ScalarType type) {
  constexpr std::pair<at::ScalarType, absl::string_view> kNames[] = {
      {at::kLong, "int64"},    {at::kInt, "int32"},      {at::kByte, "uint8"},   {at::kBool, "bool"},
      {at::kFloat, "float32"}, {at::kDouble, "float64"}, {at::kHalf, "float16"}, {at::kBFloat16, "bfloat16"}};
  const auto* const found =
      std::find_if(std::begin(kNames), std::end(kNames), [&](const auto& known) { return known.first == type; });
  return found == std::end(kNames) ? c10::toString(type) : found->second;
}

std::string ShapeText(const at::Tensor& tensor) {
  return absl::StrCat(TypeName(tensor.scalar_type()), " [", absl::StrJoin(tensor.sizes(), ", "), "]");
}

// Calls visit(key, tensor) for each tensor [B, *].
template <typename Visit>
void ForEachTensor(const Batch& batch, const Visit& visit) {
  if (batch.inputs.defined()) visit(std::string("inputs"), batch.inputs);
  if (batch.targets.defined()) visit(std::string("targets"), batch.targets);
  for (const auto& [key, tensor] : batch.extra) visit(key, tensor);
}

bool IsWhole(const at::Tensor& tensor) { return at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true); }
bool IsRow(const at::Tensor& tensor) { return tensor.scalar_type() == at::kLong && tensor.dim() == 1; }

std::vector<int64_t> NumbersOf(const at::Tensor& row) {
  const at::Tensor numbers = row.cpu().to(at::kLong).contiguous();
  const auto* data = static_cast<const int64_t*>(numbers.const_data_ptr());
  return {data, data + numbers.numel()};
}

std::string RangeText(const at::Tensor& tensor) {
  const at::Tensor values = tensor.cpu().to(at::kDouble);
  return absl::StrFormat("from %.4g to %.4g, mean %.4g", values.min().item<double>(), values.max().item<double>(),
                         values.mean().item<double>());
}

std::string ValuesText(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return "empty";
  if (tensor.is_complex()) return "complex numbers";
  if (tensor.dim() > 1) return RangeText(tensor);
  const at::Tensor first = tensor.reshape({-1}).slice(0, 0, kShownNumbers).cpu();
  std::string text;
  if (IsWhole(tensor)) {
    text = absl::StrJoin(NumbersOf(first), " ");
  } else {
    const at::Tensor values = first.to(at::kDouble);
    for (int64_t i = 0; i < values.numel(); ++i)
      absl::StrAppend(&text, i > 0 ? " " : "", absl::StrFormat("%.4g", values[i].item<double>()));
  }
  return tensor.numel() > kShownNumbers ? absl::StrCat(text, " …  (", tensor.numel(), " numbers)") : text;
}

std::string Quoted(absl::string_view text, int64_t characters) {
  const bool is_cut = characters > 0 && static_cast<int64_t>(text.size()) > characters;
  if (is_cut) {
    const absl::string_view kept = text.substr(0, static_cast<size_t>(characters));
    const size_t bad = FirstBadUtf8(kept);  // a character that is cut, or a byte that is none anyway
    text = bad != absl::string_view::npos && kept.size() - bad < 4 ? kept.substr(0, bad) : kept;
  }
  return absl::StrCat("\"", Printable(text), "\"", is_cut ? " …" : "");
}

// The text of the targets that the loss counts, with … in place of the others.
std::string LearnedText(const std::vector<int64_t>& targets, const Tokenizer& tokenizer) {
  std::string text;
  for (auto at = targets.begin(); at != targets.end();) {
    const bool counts = *at != kIgnored;
    const auto end = std::find_if(at, targets.end(), [&](int64_t id) { return (id != kIgnored) != counts; });
    const std::vector<int64_t> run(at, end);
    absl::StrAppend(&text, counts ? tokenizer.Decode(run, /*skip_special_tokens=*/false) : "…");
    at = end;
  }
  return text;
}

// For targets, or a mask of the same length as the inputs.
std::string CountText(const std::string& key, const at::Tensor& row) {
  const std::vector<int64_t> numbers = NumbersOf(row);
  if (key == "targets") {
    const auto ignored = std::count(numbers.begin(), numbers.end(), kIgnored);
    return absl::StrCat("the loss counts ", static_cast<int64_t>(numbers.size()) - ignored, " of ", numbers.size());
  }
  if (key != "attention_mask") return "";
  const auto hidden = std::count(numbers.begin(), numbers.end(), 0);
  return absl::StrCat(static_cast<int64_t>(numbers.size()) - hidden, " tokens, ", hidden, " of padding");
}

void AppendLine(std::string& text, absl::string_view key, absl::string_view value) {
  if (!value.empty()) absl::StrAppendFormat(&text, "  %-15s %s\n", key, value);
}

void AppendTensor(std::string& text, const std::string& key, const at::Tensor& value, const Tokenizer* tokenizer,
                  int64_t characters) {
  AppendLine(text, key, ValuesText(value));
  if (!IsRow(value)) return;
  AppendLine(text, "", CountText(key, value));
  if (tokenizer == nullptr) return;
  if (key == "inputs") AppendLine(text, "", Quoted(tokenizer->Decode(NumbersOf(value), false), characters));
  if (key == "targets") AppendLine(text, "", Quoted(LearnedText(NumbersOf(value), *tokenizer), characters));
}

// Returns how many targets the loss counts; none if they are not rows of whole numbers.
std::optional<int64_t> CountedTargets(const Batch& batch) {
  if (batch.num_loss_tokens >= 0) return batch.num_loss_tokens;
  const bool rows = batch.targets.defined() && batch.targets.scalar_type() == at::kLong && batch.targets.dim() > 1;
  return rows ? std::optional(CountLossTokens(batch)) : std::nullopt;
}

}  // namespace

std::string DescribeBatch(const Batch& batch) {
  std::string text = absl::StrCat(batch.num_samples, batch.num_samples == 1 ? " sample" : " samples");
  if (batch.num_tokens > 0) absl::StrAppend(&text, ", ", batch.num_tokens, " tokens");
  if (const auto counted = CountedTargets(batch)) absl::StrAppend(&text, "; the loss counts ", *counted);
  absl::StrAppend(&text, "\n");
  ForEachTensor(batch,
                [&](const std::string& key, const at::Tensor& value) { AppendLine(text, key, ShapeText(value)); });
  for (const auto& [key, tensors] : batch.ragged)
    AppendLine(text, key, absl::StrCat(tensors.size(), " tensors of their own shapes"));
  for (const auto& [key, texts] : batch.texts) AppendLine(text, key, absl::StrCat(texts.size(), " texts"));
  if (batch.data != nullptr) AppendLine(text, "data", "of a type of its own");
  return text;
}

std::string DescribeSample(const Batch& batch, int64_t row, const Tokenizer* tokenizer, int64_t characters) {
  std::string text;
  ForEachTensor(batch, [&](const std::string& key, const at::Tensor& value) {
    if (value.dim() > 0 && row < value.size(0)) AppendTensor(text, key, value[row], tokenizer, characters);
  });
  const auto index = static_cast<size_t>(row);
  for (const auto& [key, tensors] : batch.ragged) {
    if (index < tensors.size())
      AppendLine(text, key, absl::StrCat(ShapeText(tensors[index]), " ", ValuesText(tensors[index])));
  }
  for (const auto& [key, texts] : batch.texts) {
    if (index < texts.size()) AppendLine(text, key, Quoted(texts[index], characters));
  }
  return text;
}

absl::StatusOr<Image> GridOf(const std::vector<Image>& images) {
  const Image& first = images.front();
  for (const Image& image : images) {
    if (image.height == first.height && image.width == first.width && image.channels == first.channels) continue;
    return absl::InvalidArgumentError(absl::StrCat("the pictures have different sizes: ", first.height, " x ",
                                                   first.width, " and ", image.height, " x ", image.width));
  }
  const auto count = static_cast<int64_t>(images.size());
  const auto columns = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  const int64_t rows = (count + columns - 1) / columns;
  const int64_t height = rows * (first.height + 1) - 1, width = columns * (first.width + 1) - 1;
  if (height > kMostSide || width > kMostSide)
    return absl::InvalidArgumentError(
        absl::StrCat("the grid would have ", height, " x ", width, " pixels; at most ", kMostSide, " a side"));
  Image grid{static_cast<int>(height), static_cast<int>(width), first.channels, {}};
  grid.pixels.assign(static_cast<size_t>(height * width * first.channels), 128);
  const auto row_bytes = static_cast<int64_t>(first.width) * first.channels;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t top = i / columns * (first.height + 1), left = i % columns * (first.width + 1);
    for (int64_t y = 0; y < first.height; ++y) {
      const auto from = images[static_cast<size_t>(i)].pixels.begin() + y * row_bytes;
      std::copy(from, from + row_bytes, grid.pixels.begin() + ((top + y) * width + left) * first.channels);
    }
  }
  return grid;
}

}  // namespace composer
