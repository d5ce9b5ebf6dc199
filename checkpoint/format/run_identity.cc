// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/run_identity.h"

#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/format/json.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "checkpoint/format/json_text.h"
#include "storage/checksum.h"
#include "storage/file_system.h"

namespace composer {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxIdentityBytes = 16 << 10;
constexpr char kIdentityFile[] = ".run.json";

absl::Status NoIdentity() { return absl::DataLossError("not the identity of a run"); }

uint64_t InodeOf(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_ino) : 0;
}

}  // namespace

std::string SerializeRunIdentity(const RunIdentity& identity) {
  const Json json = {{"run_id", identity.id}, {"path", identity.path}, {"inode", identity.inode}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<RunIdentity> ParseRunIdentity(absl::string_view text) {
  if (!CheckJson(text, {.max_depth = 4, .max_values = 100}).ok()) return NoIdentity();
  const Json json = ParseJson(text);
  if (!json.is_object() || !json.contains("run_id") || !json.contains("path") || !json.contains("inode"))
    return NoIdentity();
  if (!json["run_id"].is_string() || !json["path"].is_string() || !json["inode"].is_number_unsigned())
    return NoIdentity();
  RunIdentity identity{json["run_id"], json["path"], json["inode"]};
  if (!ParseChecksum(identity.id).has_value()) return NoIdentity();
  return identity;
}

bool IsSameFolder(const RunIdentity& recorded, absl::string_view path, uint64_t inode) {
  return recorded.path == path || (recorded.inode == inode && inode != 0);
}

std::string ReadRunId(const std::string& run_folder) {
  if (run_folder.empty()) return "";
  const std::string path = JoinPath(run_folder, kIdentityFile);
  const absl::StatusOr<int64_t> size = RealFileSystem().Size(path);  // a FIFO gives an error instead of blocking
  if (!size.ok() || *size > kMaxIdentityBytes) return "";
  std::string text(static_cast<size_t>(*size), '\0');
  if (!RealFileSystem().Read(path, 0, absl::MakeSpan(text)).ok()) return "";
  const absl::StatusOr<RunIdentity> identity = ParseRunIdentity(text);
  const bool own = identity.ok() && IsSameFolder(*identity, AbsolutePath(run_folder), InodeOf(run_folder));
  return own ? identity->id : "";
}

absl::StatusOr<std::string> MakeRunId(const std::string& run_folder) {
  RETURN_IF_ERROR(MakeDirs(run_folder));
  RunIdentity identity{RandomHex(8), AbsolutePath(run_folder), InodeOf(run_folder)};
  RETURN_IF_ERROR(AtomicWriteFile(JoinPath(run_folder, kIdentityFile), SerializeRunIdentity(identity)));
  return identity.id;
}

}  // namespace composer
