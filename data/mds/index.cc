// SPDX-License-Identifier: Apache-2.0
#include "data/mds/index.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/format/json.h"
#include "base/json_members.h"
#include "base/status_macros.h"
#include "data/codec/hashing.h"
#include "data/mds/python_json.h"

namespace composer {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMostBytes = int64_t{1} << 40;

absl::Status Damaged(absl::string_view what) { return absl::DataLossError(absl::StrCat("index.json: ", what)); }

// Inside the folder: no absolute path, no "..", nothing that a file system takes for another name.
bool IsInside(const std::string& name) {
  if (name.empty() || name.size() > 4096 || name.find('\0') != std::string::npos) return false;
  for (const absl::string_view part : absl::StrSplit(name, '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

absl::StatusOr<ShardFile> ParseFile(const Json& json) {
  ShardFile file;
  uint64_t bytes = 0;
  if (!json.is_object() || !TakeMember(json, "basename", file.name) || !TakeMember(json, "bytes", bytes) ||
      bytes > static_cast<uint64_t>(kMostBytes))
    return Damaged("raw_data or zip_data has no basename and bytes");
  if (!IsInside(file.name)) return Damaged("the name of a shard leads out of its folder");
  file.bytes = static_cast<int64_t>(bytes);
  const auto hashes = json.find("hashes");
  if (hashes == json.end() || !hashes->is_object()) return Damaged("raw_data or zip_data has no hashes");
  for (const auto& [name, digest] : hashes->items()) {
    RETURN_IF_ERROR(CheckHashName(name));
    if (!digest.is_string()) return Damaged("a hash is not a text");
    file.hashes.emplace_back(name, digest.get<std::string>());
  }
  return file;
}

absl::Status ParseColumns(const Json& json, MdsShardInfo& info) {
  std::vector<std::string> names, encodings;
  const auto sizes = json.find("column_sizes");
  if (!TakeMember(json, "column_names", names) || !TakeMember(json, "column_encodings", encodings) ||
      sizes == json.end() || !sizes->is_array() || names.size() != encodings.size() || names.size() != sizes->size() ||
      names.empty())
    return Damaged("a shard has no matching column_names, column_encodings and column_sizes");
  for (size_t i = 0; i < names.size(); ++i) {
    auto encoding = ParseMdsEncoding(encodings[i]);
    if (!encoding.ok()) return Annotate(encoding.status(), absl::StrCat("column `", names[i].substr(0, 100), "`"));
    // A fixed size must be the encoding's; null and 0 mean that each sample has its own, whatever the encoding.
    const Json& size = (*sizes)[i];
    const bool fixed = size.is_number_unsigned() && size.get<uint64_t>() > 0;
    if (fixed && encoding->size != size.get<int64_t>()) return Damaged("column_sizes does not fit the encodings");
    if (!fixed && !size.is_null() && size != Json(0)) return Damaged("column_sizes has something else than sizes");
    if (!fixed) encoding->size.reset();
    info.columns.push_back({std::move(names[i]), *std::move(encoding)});
  }
  return absl::OkStatus();
}

// str, int and float of rows, as MDS holds them.
absl::Status AddRowColumn(const std::string& name, const std::string& kind, MdsShardInfo& info) {
  if (kind != "str" && kind != "int" && kind != "float")
    return Damaged(absl::StrCat("column `", name.substr(0, 100), "` of rows is none of str, int and float"));
  ASSIGN_OR_RETURN(MdsEncoding encoding, ParseMdsEncoding(kind == "float" ? "float64" : kind));
  info.columns.push_back({name, std::move(encoding)});
  return absl::OkStatus();
}

absl::Status ParseRows(const Json& json, const std::string& format, MdsShardInfo& info) {
  RowShard& rows = info.rows.emplace();
  rows.format = format;
  rows.separator = format == "csv" ? "," : "\t";
  if (!TakeMember(json, "newline", rows.newline)) return Damaged("a shard of rows has no newline");
  if (format == "xsv" && (!TakeMember(json, "separator", rows.separator) || rows.separator.empty()))
    return Damaged("a shard of rows has no separator");
  std::vector<std::string> names, kinds;
  if (format == "json" && json.contains("columns") && json["columns"].is_object()) {
    for (const auto& [name, kind] : json["columns"].items()) {
      names.push_back(name);
      kinds.push_back(kind.is_string() ? kind.get<std::string>() : "");
    }
  } else if (!TakeMember(json, "column_names", names) || !TakeMember(json, "column_encodings", kinds)) {
    return Damaged("a shard of rows has no columns");
  }
  if (names.empty() || names.size() != kinds.size()) return Damaged("a shard of rows has no matching columns");
  for (size_t i = 0; i < names.size(); ++i) RETURN_IF_ERROR(AddRowColumn(names[i], kinds[i], info));
  if (!json.contains("raw_meta")) return Damaged("a shard of rows has no raw_meta");
  ASSIGN_OR_RETURN(rows.raw_meta, ParseFile(json["raw_meta"]));
  if (json.contains("zip_meta") && !json["zip_meta"].is_null()) {
    ASSIGN_OR_RETURN(rows.zip_meta, ParseFile(json["zip_meta"]));
  }
  return absl::OkStatus();
}

absl::StatusOr<MdsShardInfo> ParseShard(const Json& json) {
  uint32_t version = 0, samples = 0;
  std::string format;
  if (!json.is_object() || !TakeMember(json, "version", version) || !TakeMember(json, "format", format))
    return Damaged("a shard has no version and format");
  if (version != 2) return absl::InvalidArgumentError(absl::StrCat("its version is ", version, "; only 2 is known"));
  MdsShardInfo info;
  if (format == "mds") {
    RETURN_IF_ERROR(ParseColumns(json, info));
  } else if (format == "json" || format == "csv" || format == "tsv" || format == "xsv") {
    RETURN_IF_ERROR(ParseRows(json, format, info));
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("its format is `", format.substr(0, 20), "`; mds, json, csv, tsv and xsv are known"));
  }
  if (!TakeMember(json, "samples", samples)) return Damaged("a shard has no number of samples");
  info.samples = samples;
  if (TakeMember(json, "compression", info.compression_text) && !info.compression_text.empty()) {
    ASSIGN_OR_RETURN(info.compression, ParseCompression(info.compression_text));
  }
  if (!json.contains("raw_data")) return Damaged("a shard has no raw_data");
  ASSIGN_OR_RETURN(info.raw, ParseFile(json["raw_data"]));
  if (json.contains("zip_data") && !json["zip_data"].is_null()) {
    ASSIGN_OR_RETURN(info.zip, ParseFile(json["zip_data"]));
  }
  if (info.zip.has_value() != info.compression.has_value() ||
      (info.rows && info.zip.has_value() != info.rows->zip_meta.has_value()))
    return Damaged("a compressed shard needs compression and all compressed files");
  TakeMember(json, "hashes", info.hashes);
  if (uint64_t limit = 0; TakeMember(json, "size_limit", limit)) info.size_limit = static_cast<int64_t>(limit);
  return info;
}

Json FileJson(const ShardFile& file) {
  Json hashes = Json::object();
  for (const auto& [algorithm, digest] : file.hashes) hashes[algorithm] = digest;
  return {{"basename", file.name}, {"bytes", file.bytes}, {"hashes", hashes}};
}

// What MDSWriter and the writers of rows put into their shards.
Json ConfigJson(const MdsShardInfo& info) {
  Json names = Json::array(), encodings = Json::array(), sizes = Json::array(), kinds = Json::object();
  for (const MdsColumn& column : info.columns) {
    const std::string kind = info.rows && column.encoding.name == "float64" ? "float" : column.encoding.name;
    names.push_back(column.name);
    encodings.push_back(kind);
    kinds[column.name] = kind;
    sizes.push_back(column.encoding.size ? Json(*column.encoding.size) : Json(nullptr));
  }
  Json config = {{"version", 2},
                 {"format", info.rows ? info.rows->format : "mds"},
                 {"compression", info.compression ? Json(info.compression_text) : Json(nullptr)},
                 {"hashes", info.hashes},
                 {"size_limit", info.size_limit ? Json(*info.size_limit) : Json(nullptr)}};
  if (!info.rows) config["column_sizes"] = sizes;
  if (info.rows) config["newline"] = info.rows->newline;
  if (info.rows && info.rows->format == "xsv") config["separator"] = info.rows->separator;
  if (info.rows && info.rows->format == "json") {
    config["columns"] = kinds;
  } else {
    config["column_names"] = names;
    config["column_encodings"] = encodings;
  }
  return config;
}

}  // namespace

std::vector<ShardPart> PartsOf(const MdsShardInfo& info) {
  std::vector<ShardPart> parts = {{info.raw, info.zip}};
  if (info.rows) parts.push_back({info.rows->raw_meta, info.rows->zip_meta});
  return parts;
}

int64_t PlainBytes(const MdsShardInfo& info) {
  int64_t bytes = 0;
  for (const ShardPart& part : PartsOf(info)) bytes += part.raw.bytes;
  return bytes;
}

absl::StatusOr<MdsIndex> ParseMdsIndex(absl::string_view text) {
  const Json json = ParseJson(text);
  uint32_t version = 0;
  if (!json.is_object() || !TakeMember(json, "version", version) || !json.contains("shards") ||
      !json["shards"].is_array())
    return Damaged("this is not an index of shards");
  if (version != 2)
    return absl::InvalidArgumentError(absl::StrCat("index.json has version ", version, "; only 2 is known"));
  MdsIndex index;
  for (const Json& shard : json["shards"]) {
    auto info = ParseShard(shard);
    if (!info.ok()) return Annotate(info.status(), absl::StrCat("shard ", index.shards.size()));
    index.shards.push_back(*std::move(info));
  }
  return index;
}

std::string MdsShardConfigText(const MdsShardInfo& info) { return PythonJson(ConfigJson(info)); }

std::string MdsIndexText(const MdsIndex& index) {
  Json shards = Json::array();
  for (const MdsShardInfo& info : index.shards) {
    Json shard = ConfigJson(info);
    shard["raw_data"] = FileJson(info.raw);
    shard["zip_data"] = info.zip ? FileJson(*info.zip) : Json(nullptr);
    if (info.rows) {
      shard["raw_meta"] = FileJson(info.rows->raw_meta);
      shard["zip_meta"] = info.rows->zip_meta ? FileJson(*info.rows->zip_meta) : Json(nullptr);
    }
    shard["samples"] = info.samples;
    shards.push_back(std::move(shard));
  }
  return PythonJson({{"version", 2}, {"shards", std::move(shards)}});
}

absl::StatusOr<MdsIndex> MergeMdsIndices(const std::vector<std::pair<std::string, MdsIndex>>& parts) {
  MdsIndex merged;
  std::vector<std::string> folders;
  for (const auto& [folder, index] : parts) {
    if (!IsInside(folder) || absl::StrContains(folder, '/'))
      return absl::InvalidArgumentError(absl::StrCat("`", folder, "` is not the name of a folder beside the others"));
    if (std::find(folders.begin(), folders.end(), folder) != folders.end())
      return absl::InvalidArgumentError(absl::StrCat("folder `", folder, "` is named twice"));
    folders.push_back(folder);
    for (MdsShardInfo info : index.shards) {
      const std::string prefix = absl::StrCat(folder, "/");
      const auto move = [&prefix](ShardFile& file) { file.name.insert(0, prefix); };
      move(info.raw);
      if (info.zip) move(*info.zip);
      if (info.rows) move(info.rows->raw_meta);
      if (info.rows && info.rows->zip_meta) move(*info.rows->zip_meta);
      merged.shards.push_back(std::move(info));
    }
  }
  return merged;
}

}  // namespace composer
