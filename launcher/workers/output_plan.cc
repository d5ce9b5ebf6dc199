// SPDX-License-Identifier: Apache-2.0
#include "launcher/workers/output_plan.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr int kMaxWidth = 100;

struct Field {
  const char* name;
  int64_t number;
};

std::vector<Field> Numbers(const WorkerPlace& place) {
  return {{"rank", place.rank},
          {"local_rank", place.local_rank},
          {"world_size", place.world_size},
          {"local_world_size", place.local_world_size},
          {"node_rank", place.node_rank},
          {"restart_count", place.restart_count}};
}

// Formats one {name} or {name:05d}, passed without the braces.
absl::StatusOr<std::string> FormatField(absl::string_view field, const WorkerPlace& place) {
  const size_t colon = field.find(':');
  const std::string name(field.substr(0, colon));
  absl::string_view spec = colon == absl::string_view::npos ? "" : field.substr(colon + 1);
  if (name == "run_name" && spec.empty()) return place.run_name.empty() ? place.job : place.run_name;
  const std::vector<Field> numbers = Numbers(place);
  const auto it = std::find_if(numbers.begin(), numbers.end(), [&](const Field& f) { return name == f.name; });
  if (it == numbers.end()) {
    std::vector<std::string> known = {"run_name"};
    for (const Field& f : numbers) known.push_back(f.name);
    return absl::InvalidArgumentError(absl::StrCat("{", name, "} is not known", DidYouMean(name, known)));
  }
  absl::ConsumeSuffix(&spec, "d");
  const char fill = absl::ConsumePrefix(&spec, "0") ? '0' : ' ';
  int width = 0;
  const bool digits = std::all_of(spec.begin(), spec.end(), absl::ascii_isdigit);
  if (!digits || (!spec.empty() && !absl::SimpleAtoi(spec, &width)) || width > kMaxWidth) {
    return absl::InvalidArgumentError(absl::StrCat("{", field, "}: after the colon comes a width such as 05d"));
  }
  std::string text = absl::StrCat(it->number);
  if (static_cast<int>(text.size()) < width) text.insert(0, width - text.size(), fill);
  return text;
}

bool Shown(const OutputOptions& options, int local_rank) {
  const std::vector<int>& filter = options.local_ranks_filter;
  return filter.empty() || std::find(filter.begin(), filter.end(), local_rank) != filter.end();
}

StreamOutput PlanStream(const OutputOptions& options, const WorkerPlace& place, int stream) {
  const std::string& file = stream == 1 ? options.stdout_file : options.stderr_file;
  StreamOutput result;
  result.show = place.rank == 0      ? RankLogs::Show::kRaw
                : options.keeps_logs ? RankLogs::Show::kHidden
                                     : RankLogs::Show::kPrefixed;
  if (options.tee.Has(place.local_rank, stream)) result.show = RankLogs::Show::kPrefixed;
  if (options.redirects.Has(place.local_rank, stream)) result.show = RankLogs::Show::kHidden;
  const bool chosen = options.redirects.Has(place.local_rank, stream) ||
                      (options.tee_to_files && options.tee.Has(place.local_rank, stream));
  const bool all = !options.redirects.given && !options.tee.given;
  if (!options.log_dir.empty() && (chosen || all)) {
    result.path = absl::StrCat(options.log_dir, "/", options.job, "/attempt_", place.restart_count, "/", place.rank,
                               stream == 1 ? "/stdout.log" : "/stderr.log");
  }
  if (!file.empty() && place.local_rank > 0) {
    result.show = RankLogs::Show::kHidden;
    result.path = FormatFileName(file, place).value_or("");  // MakeOutputOptions has checked it
  }
  if (!Shown(options, place.local_rank)) result.show = RankLogs::Show::kHidden;
  return result;
}

}  // namespace

absl::StatusOr<std::string> FormatFileName(const std::string& text, const WorkerPlace& place) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c != '{' && c != '}') {
      result += c;
    } else if (i + 1 < text.size() && text[i + 1] == c) {
      result += c;
      ++i;
    } else if (c == '}') {
      return absl::InvalidArgumentError("a } without {; write }} for the character");
    } else {
      const size_t end = text.find('}', i);
      if (end == std::string::npos) return absl::InvalidArgumentError("a { without }; write {{ for the character");
      ASSIGN_OR_RETURN(const std::string field, FormatField(absl::string_view(text).substr(i + 1, end - i - 1), place));
      result += field;
      i = end;
    }
  }
  return result;
}

RankOutput PlanOutput(const OutputOptions& options, const WorkerPlace& place) {
  return {PlanStream(options, place, 1), PlanStream(options, place, 2)};
}

}  // namespace composer
