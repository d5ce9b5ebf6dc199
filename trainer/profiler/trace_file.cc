// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/trace_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"

namespace composer {
namespace {

constexpr int64_t kDay = int64_t{86'400} * 1'000'000'000;

void AppendMicros(std::string* out, int64_t ns) {
  if (ns < 0) {
    *out += '-';
    ns = -ns;
  }
  absl::StrAppendFormat(out, "%d.%03d", ns / 1000, ns % 1000);
}

std::string TemporaryName(const std::string& path) { return absl::StrCat(path, ".tmp-", getpid()); }

}  // namespace

int64_t TraceBase(int64_t unix_ns) { return unix_ns - unix_ns % kDay; }

void AppendJsonString(std::string* out, absl::string_view text) {
  const bool is_plain =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
  if (is_plain) {
    absl::StrAppend(out, "\"", text, "\"");
    return;
  }
  using Json = nlohmann::json;
  *out += Json(std::string(text)).dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

absl::StatusOr<std::unique_ptr<TraceFileWriter>> TraceFileWriter::Create(const std::string& path,
                                                                         const TraceFileHeader& header) {
  FILE* file = fopen(TemporaryName(path).c_str(), "we");
  if (file == nullptr) return ErrnoStatus(errno, "cannot create", path);
  return absl::WrapUnique(new TraceFileWriter(path, file, header));
}

TraceFileWriter::TraceFileWriter(std::string path, FILE* file, const TraceFileHeader& header)
    : path_(std::move(path)), file_(file), base_ns_(header.base_ns), rank_(header.rank) {
  setvbuf(file_, nullptr, _IOFBF, 1 << 20);
  line_ = absl::StrCat("{\"schemaVersion\":1,\"displayTimeUnit\":\"ms\",\"baseTimeNanoseconds\":", base_ns_,
                       ",\"composer\":{\"rank\":", rank_, ",\"world_size\":", header.world_size);
  Text("run_name", header.run_name);
  line_ += "},\"traceEvents\":[\n";
  fwrite(line_.data(), 1, line_.size(), file_);
}

TraceFileWriter::~TraceFileWriter() {
  if (file_ == nullptr) return;
  fclose(file_);
  unlink(TemporaryName(path_).c_str());
}

void TraceFileWriter::Begin(int64_t time_ns, absl::string_view phase) {
  line_ = is_first_ ? "{\"ts\":" : ",\n{\"ts\":";
  is_first_ = false;
  AppendMicros(&line_, time_ns - base_ns_);
  absl::StrAppend(&line_, ",\"ph\":\"", phase, "\",\"pid\":", rank_);
}

void TraceFileWriter::Text(absl::string_view key, absl::string_view value) {
  absl::StrAppend(&line_, ",\"", key, "\":");
  AppendJsonString(&line_, value);
}

void TraceFileWriter::End() {
  line_ += '}';
  fwrite(line_.data(), 1, line_.size(), file_);
}

void TraceFileWriter::ProcessName(absl::string_view name) {
  Begin(base_ns_, "M");
  line_ += ",\"name\":\"process_name\",\"args\":{\"name\":";
  AppendJsonString(&line_, name);
  line_ += '}';
  End();
  Begin(base_ns_, "M");
  absl::StrAppend(&line_, ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":", rank_, "}");
  End();
}

void TraceFileWriter::RowName(TraceRow row, absl::string_view name, int64_t sort_index) {
  Begin(base_ns_, "M");
  absl::StrAppend(&line_, ",\"tid\":", row.tid, ",\"name\":\"thread_name\",\"args\":{\"name\":");
  AppendJsonString(&line_, name);
  line_ += '}';
  End();
  Begin(base_ns_, "M");
  absl::StrAppend(&line_, ",\"tid\":", row.tid, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":", sort_index,
                  "}");
  End();
}

void TraceFileWriter::Complete(absl::string_view name, absl::string_view category, int64_t begin_ns,
                               int64_t duration_ns, TraceRow row, absl::string_view args) {
  Begin(begin_ns, "X");
  absl::StrAppend(&line_, ",\"tid\":", row.tid, ",\"dur\":");
  AppendMicros(&line_, duration_ns);
  Text("name", name);
  Text("cat", category);
  if (!args.empty()) absl::StrAppend(&line_, ",\"args\":{", args, "}");
  End();
}

void TraceFileWriter::Instant(absl::string_view name, absl::string_view category, int64_t time_ns, TraceRow row) {
  Begin(time_ns, "i");
  absl::StrAppend(&line_, ",\"tid\":", row.tid, ",\"s\":\"t\"");
  Text("name", name);
  Text("cat", category);
  End();
}

void TraceFileWriter::Counter(absl::string_view name, int64_t time_ns,
                              absl::Span<const std::pair<std::string, double>> values) {
  std::string args;
  for (const auto& [key, value] : values) {
    if (!std::isfinite(value)) continue;
    if (!args.empty()) args += ',';
    AppendJsonString(&args, key);
    absl::StrAppendFormat(&args, ":%.15g", value);
  }
  if (args.empty()) return;
  Begin(time_ns, "C");
  Text("name", name);
  absl::StrAppend(&line_, ",\"args\":{", args, "}");
  End();
}

void TraceFileWriter::Arrow(uint64_t id, int64_t from_ns, TraceRow from, int64_t to_ns, TraceRow to) {
  Begin(from_ns, "s");
  absl::StrAppend(&line_, ",\"tid\":", from.tid, ",\"id\":", id, ",\"name\":\"launch\",\"cat\":\"launch\"");
  End();
  Begin(to_ns, "f");
  absl::StrAppend(&line_, ",\"tid\":", to.tid, ",\"id\":", id, ",\"name\":\"launch\",\"cat\":\"launch\",\"bp\":\"e\"");
  End();
}

absl::Status TraceFileWriter::Finish() {
  FILE* file = std::exchange(file_, nullptr);
  constexpr absl::string_view kEnd = "\n]}\n";
  fwrite(kEnd.data(), 1, kEnd.size(), file);
  const bool failed = ferror(file) != 0;
  const std::string temporary = TemporaryName(path_);
  if (fclose(file) != 0 || failed) {
    const absl::Status status = ErrnoStatus(errno, "cannot write", path_);
    unlink(temporary.c_str());
    return status;
  }
  if (rename(temporary.c_str(), path_.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "cannot rename to", path_);
}

}  // namespace composer
