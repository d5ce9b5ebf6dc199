// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/monitors/device_peaks.h"

#include <string>

#include "absl/strings/ascii.h"

namespace composer {
namespace {

// A GPU matches the first row whose words are all in its name. 0 means that it has no units for the type.
// Sources: NVIDIA's data sheets (H200, H100, A100, A30, A10, L40S, L4, V100, T4); those of mosaicml
// composer/callbacks/speed_monitor.py where it has the GPU.
struct Row {
  const char* words[2];
  double fp32, tf32, fp16, bf16, fp8;
};
constexpr Row kRows[] = {
    {{"h200", ""}, 67e12, 494.5e12, 989.5e12, 989.5e12, 1979e12},
    {{"gh200", ""}, 67e12, 494.5e12, 989.5e12, 989.5e12, 1979e12},
    {{"h100", "hbm3"}, 67e12, 494.5e12, 989.5e12, 989.5e12, 1979e12},
    {{"h100", "nvl"}, 60e12, 417.5e12, 835.5e12, 835.5e12, 1670.5e12},
    {{"h100", ""}, 51e12, 378e12, 756.5e12, 756.5e12, 1513e12},  // PCIe
    {{"a100", ""}, 19.5e12, 156e12, 312e12, 312e12, 0},
    {{"a30", ""}, 10.3e12, 82e12, 165e12, 165e12, 0},
    {{"a10g", ""}, 31.2e12, 35e12, 70e12, 70e12, 0},
    {{"a10", ""}, 31.2e12, 62.5e12, 125e12, 125e12, 0},
    {{"l40s", ""}, 91.6e12, 183e12, 362.05e12, 362.05e12, 733e12},
    {{"l4", ""}, 30.3e12, 60e12, 121e12, 121e12, 242.5e12},
    {{"v100s", "pcie"}, 16.4e12, 0, 130e12, 0, 0},
    {{"v100", "pcie"}, 14e12, 0, 112e12, 0, 0},
    {{"v100", ""}, 15.7e12, 0, 125e12, 0, 0},
    {{"t4", ""}, 8.1e12, 0, 65e12, 0, 0},
};

// Matches whole words only, so that "A10" is not found in "A100", nor "L4" in "L40".
bool HasWord(absl::string_view name, absl::string_view word) {
  for (size_t at = name.find(word); at != absl::string_view::npos; at = name.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool begins = at == 0 || !absl::ascii_isalnum(static_cast<unsigned char>(name[at - 1]));
    const bool ends = end == name.size() || !absl::ascii_isalnum(static_cast<unsigned char>(name[end]));
    if (begins && ends) return true;
  }
  return false;
}

double Of(const Row& row, MathType type) {
  switch (type) {
    case MathType::kFp32:
      return row.fp32;
    case MathType::kTf32:
      return row.tf32 > 0 ? row.tf32 : row.fp32;  // without TF32 units, products are computed in fp32
    case MathType::kFp16:
      return row.fp16;
    case MathType::kBf16:
      return row.bf16;
    case MathType::kFp8:
      return row.fp8;
  }
  return 0;
}

}  // namespace

std::optional<double> PeakFlops(absl::string_view device_name, MathType type) {
  const std::string name = absl::AsciiStrToLower(device_name);
  for (const Row& row : kRows) {
    if (!HasWord(name, row.words[0])) continue;
    if (row.words[1][0] != '\0' && !HasWord(name, row.words[1])) continue;
    const double peak = Of(row, type);
    if (peak > 0) return peak;
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace composer
