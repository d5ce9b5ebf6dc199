// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/trace_name.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/name_template.h"
#include "base/nearest_name.h"

namespace composer {
namespace {

PlaceholderValues Placeholders(const NameValues& values) {
  const Timestamp& now = values.timestamp;
  return {{"run_name", std::string(values.run_name)},
          {"run_folder", std::string(values.run_folder)},
          {"rank", absl::StrCat(values.rank)},
          {"world_size", absl::StrCat(values.world_size)},
          {"epoch", absl::StrCat(now.epoch)},
          {"batch", absl::StrCat(now.batch)},
          {"batch_in_epoch", absl::StrCat(now.batch_in_epoch)},
          {"sample", absl::StrCat(now.sample)},
          {"sample_in_epoch", absl::StrCat(now.sample_in_epoch)},
          {"token", absl::StrCat(now.token)},
          {"token_in_epoch", absl::StrCat(now.token_in_epoch)}};
}

}  // namespace

std::string FillName(absl::string_view name, const NameValues& values) {
  return FillTemplate(name, Placeholders(values));
}

absl::Status CheckName(absl::string_view name) {
  std::vector<std::string> known;
  for (const auto& [key, text] : Placeholders({})) known.push_back(key);
  for (size_t open = name.find('{'); open != name.npos; open = name.find('{', open + 1)) {
    const size_t close = name.find('}', open);
    if (close == name.npos) return absl::InvalidArgumentError(absl::StrCat(name, ": { without }"));
    const std::string key(name.substr(open + 1, close - open - 1));
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return absl::InvalidArgumentError(absl::StrCat("unknown placeholder {", key, "}; there are {",
                                                     absl::StrJoin(known, "}, {"), "}", DidYouMean(key, known)));
    }
  }
  return absl::OkStatus();
}

}  // namespace composer
