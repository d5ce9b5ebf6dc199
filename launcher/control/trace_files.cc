// SPDX-License-Identifier: Apache-2.0
#include "launcher/control/trace_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "launcher/control/http_request.h"

namespace composer {
namespace {

constexpr size_t kMostFiles = 1000;
constexpr int64_t kPart = 256 << 10;

struct Kind {
  absl::string_view ending, type;
  bool is_shown;  // by a browser; else it is kept as a file
};
constexpr Kind kKinds[] = {{".html", "text/html; charset=utf-8", true},
                           {".txt", "text/plain; charset=utf-8", true},
                           {".json", "application/json", false},
                           {"", "application/octet-stream", false}};

std::string FolderOfTraces(const std::string& run_folder) {
  return run_folder.empty() ? "" : JoinPath(run_folder, "traces");
}

bool IsPlain(absl::string_view name) {
  return !name.empty() && name[0] != '.' && name.find('/') == name.npos && name.find('\0') == name.npos;
}

std::string PercentDecoded(absl::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const bool is_code = text[i] == '%' && i + 2 < text.size() && absl::ascii_isxdigit(text[i + 1]) &&
                         absl::ascii_isxdigit(text[i + 2]) && absl::SimpleHexAtoi(text.substr(i + 1, 2), &byte);
    decoded.push_back(is_code ? static_cast<char>(byte) : text[i]);
    if (is_code) i += 2;
  }
  return decoded;
}

// A name that needs no quoting in a header.
std::string HeaderName(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !absl::ascii_isalnum(c) && c != '.' && c != '-'; }, '_');
  return name;
}

std::string HeadOf(const std::string& name, int64_t size) {
  const Kind& kind = *std::find_if(std::begin(kKinds), std::end(kKinds),
                                   [&](const Kind& k) { return absl::EndsWith(name, k.ending); });
  return absl::StrCat("HTTP/1.1 200 OK\r\nContent-Type: ", kind.type, "\r\nContent-Length: ", size,
                      "\r\nContent-Disposition: ", kind.is_shown ? "inline" : "attachment",
                      "; filename=", HeaderName(name),
                      "\r\nContent-Security-Policy: sandbox allow-scripts; default-src 'none'; script-src "
                      "'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
                      "\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer"
                      "\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n");
}

}  // namespace

std::string TracesJson(const std::string& run_folder) {
  struct Found {
    int64_t modified, bytes;
    std::string name;
  };
  std::vector<Found> files;
  const std::string folder = FolderOfTraces(run_folder);
  if (folder.empty()) return "";
  for (std::string& name : ListDir(folder).value_or(std::vector<std::string>())) {
    struct stat info{};
    if (!IsPlain(name) || lstat(JoinPath(folder, name).c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    files.push_back({info.st_mtime, info.st_size, std::move(name)});
  }
  std::sort(files.begin(), files.end(), [](const Found& a, const Found& b) {
    return a.modified != b.modified ? a.modified > b.modified : a.name < b.name;
  });
  files.resize(std::min(files.size(), kMostFiles));
  if (files.empty()) return "";
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Found& file : files)
    json.push_back({{"name", file.name}, {"bytes", file.bytes}, {"modified", file.modified}});
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

TraceDownload::TraceDownload(std::string run_folder, absl::string_view name, bool head)
    : folder_(FolderOfTraces(run_folder)), name_(PercentDecoded(name)), head_(head) {}

TraceDownload::~TraceDownload() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<std::string> TraceDownload::Begin() {
  if (!folder_.empty() && IsPlain(name_))
    fd_ = open(JoinPath(folder_, name_).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  struct stat info{};
  if (fd_ < 0 || fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    done_ = true;
    return HttpResponse(404, head_);
  }
  left_ = info.st_size;
  done_ = head_ || left_ == 0;
  return HeadOf(name_, left_);
}

absl::StatusOr<std::string> TraceDownload::Next() {
  if (!std::exchange(begun_, true)) return Begin();
  std::string part(static_cast<size_t>(std::min(left_, kPart)), '\0');
  const ssize_t count = read(fd_, part.data(), part.size());
  if (count < 0) return ErrnoStatus(errno, "cannot read", name_);
  if (count == 0) return absl::DataLossError(absl::StrCat(name_, " has become shorter"));
  part.resize(static_cast<size_t>(count));
  left_ -= count;
  done_ = left_ == 0;
  return part;
}

}  // namespace composer
