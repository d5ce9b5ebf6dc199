// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/trace_merge.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/format/json.h"
#include "base/status_macros.h"

namespace composer {
namespace {

using Json = nlohmann::json;

constexpr absl::string_view kBegin = "{\"schemaVersion\":1,";
constexpr absl::string_view kEvents = "\"traceEvents\":[";
constexpr absl::string_view kTime = "{\"ts\":";

struct Header {
  int64_t base_ns = 0;
  bool is_merged = false;
};

absl::StatusOr<Header> ReadHeader(std::istream& in, const std::string& path) {
  std::string line;
  std::getline(in, line);
  const absl::Status wrong = absl::InvalidArgumentError(absl::StrCat(path, " is not a trace that Composer wrote"));
  if (!absl::StartsWith(line, kBegin) || !absl::EndsWith(line, kEvents)) return wrong;
  const Json json = ParseJson(line + "]}");
  if (!json.is_object() || !json.contains("baseTimeNanoseconds") || !json["baseTimeNanoseconds"].is_number_integer())
    return wrong;
  return Header{json["baseTimeNanoseconds"].get<int64_t>(),
                json.contains("composer") && json["composer"].contains("merged")};
}

// Appends a line that begins with `{"ts":12.345,…`, moved by `shift` microseconds.
absl::Status AppendShifted(absl::string_view line, int64_t shift, std::string* out) {
  absl::string_view rest = line;
  int64_t micros = 0;
  if (!absl::ConsumePrefix(&rest, kTime) || !absl::SimpleAtoi(rest.substr(0, rest.find('.')), &micros))
    return absl::InvalidArgumentError(absl::StrCat("an event without a time: ", line.substr(0, 80)));
  absl::StrAppend(out, kTime, micros + shift, rest.substr(rest.find('.')));
  return absl::OkStatus();
}

class Merger {
 public:
  Merger(std::ostream& out, int64_t base_ns) : out_(out), base_ns_(base_ns) {}

  absl::Status Add(const std::string& path) {
    std::ifstream in(path);
    ASSIGN_OR_RETURN(const Header header, ReadHeader(in, path));
    const int64_t shift = (header.base_ns - base_ns_) / 1000;
    std::string line;
    bool ended = false;
    while (std::getline(in, line)) {
      if (line == "]}") {
        ended = true;
        break;
      }
      if (line.empty()) continue;
      absl::string_view event = line;
      absl::ConsumeSuffix(&event, ",");
      text_ = is_first_ ? "\n" : ",\n";
      is_first_ = false;
      if (shift == 0) {
        text_.append(event.data(), event.size());
      } else {
        RETURN_IF_ERROR(Annotate(AppendShifted(event, shift, &text_), path));
      }
      out_ << text_;
    }
    return ended ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrCat(path, " is cut off"));
  }

 private:
  std::ostream& out_;
  const int64_t base_ns_;
  bool is_first_ = true;
  std::string text_;
};

absl::Status WriteMerged(const std::vector<std::string>& inputs, const std::string& output, int64_t base_ns) {
  std::ofstream out(output, std::ios::trunc);
  if (!out) return ErrnoStatus(errno, "cannot create", output);
  Json names = Json::array();
  for (const std::string& input : inputs) names.push_back(BaseName(input));
  out << kBegin << "\"displayTimeUnit\":\"ms\",\"baseTimeNanoseconds\":" << base_ns
      << ",\"composer\":{\"merged\":" << names.dump(-1, ' ', true, Json::error_handler_t::replace) << "}," << kEvents;
  Merger merger(out, base_ns);
  for (const std::string& input : inputs) RETURN_IF_ERROR(merger.Add(input));
  out << "\n]}\n";
  out.close();
  return out ? absl::OkStatus() : ErrnoStatus(errno, "cannot write", output);
}

}  // namespace

absl::Status MergeTraces(const std::vector<std::string>& inputs, const std::string& output) {
  if (inputs.empty()) return absl::InvalidArgumentError("no traces to merge");
  int64_t base_ns = INT64_MAX;
  for (const std::string& input : inputs) {
    std::ifstream in(input);
    if (!in) return ErrnoStatus(errno, "cannot open", input);
    ASSIGN_OR_RETURN(const Header header, ReadHeader(in, input));
    if (header.is_merged) return absl::InvalidArgumentError(absl::StrCat(input, " is merged already"));
    base_ns = std::min(base_ns, header.base_ns);
  }
  const std::string temporary = absl::StrCat(output, ".tmp-", getpid());
  absl::Status status = WriteMerged(inputs, temporary, base_ns);
  if (status.ok() && rename(temporary.c_str(), output.c_str()) != 0)
    status = ErrnoStatus(errno, "cannot rename to", output);
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

absl::StatusOr<std::vector<std::string>> TracesIn(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDir(folder));
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (!absl::EndsWith(name, ".json")) continue;
    const std::string path = JoinPath(folder, name);
    std::ifstream in(path);
    const absl::StatusOr<Header> header = ReadHeader(in, path);
    if (header.ok() && !header->is_merged) found.push_back(path);
  }
  return found;
}

}  // namespace composer
