// SPDX-License-Identifier: Apache-2.0
#include "job/data/table_rows.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "trainer/data/finetuning_source.h"

namespace composer {
namespace {

SourceFactory ReadTables(ConfigMap config, TableFormat format) {
  TableOptions options;
  options.format = format;
  options.paths = config.StringList("path", {});
  if (options.paths.empty()) config.Reject("path", "required");
  options.columns = config.StringList("columns", {});
  options.features = config.StringList("features", {});
  options.target = config.String("target", "");
  options.shuffle_bytes = config.Int("shuffle_bytes", options.shuffle_bytes, {.min = 1, .max = int64_t{1} << 50});
  options.fetch = ReadFetchOptions(config);
  return [options](const DataContext& context) { return OpenTables(options, context.open_store); };
}

SourceFactory ReadParquet(ConfigMap config) { return ReadTables(config, TableFormat::kParquet); }
SourceFactory ReadArrow(ConfigMap config) { return ReadTables(config, TableFormat::kArrow); }

// Returns the format of finetuning's files, none for JSON lines: what `format` says, or the ending of the first.
std::optional<TableFormat> ReadChatFormat(ConfigMap& config, const std::vector<std::string>& paths) {
  const std::string format =
      config.Has("format") ? config.Choice("format", {"jsonl", "parquet", "arrow"}, "jsonl") : "";
  for (const TableFormat known : {TableFormat::kParquet, TableFormat::kArrow}) {
    if (format == (known == TableFormat::kParquet ? "parquet" : "arrow")) return known;
    for (const std::string& ending : EndingsOf(known)) {
      if (format.empty() && !paths.empty() && absl::EndsWith(paths[0], ending)) return known;
    }
  }
  return std::nullopt;
}

SourceFactory ReadFinetuning(ConfigMap config) {
  FinetuningOptions options;
  options.paths = config.StringList("path", {});
  if (options.paths.empty()) config.Reject("path", "required");
  options.max_seq_len = config.Int("max_seq_len", options.max_seq_len, {.min = 1, .max = 1 << 24});
  options.prompt_key = config.String("prompt_key", options.prompt_key);
  options.response_key = config.String("response_key", options.response_key);
  options.messages_key = config.String("messages_key", options.messages_key);
  options.chat_template = config.String("chat_template", "");
  for (const char* key : {"turn_begin", "turn_end"}) {
    if (!options.chat_template.empty() && config.Has(key))
      config.Reject(key, "the chat_template says what stands around a message: leave one of them out");
  }
  options.turn_begin = config.String("turn_begin", options.turn_begin);
  options.turn_end = config.String("turn_end", options.turn_end);
  const std::optional<TableFormat> format = ReadChatFormat(config, options.paths);
  TableOptions tables{.paths = options.paths, .format = format.value_or(TableFormat::kParquet)};
  tables.columns = FinetuningKeys(options);
  tables.if_present = true;
  tables.fetch = ReadFetchOptions(config);
  if (!format && !tables.fetch.local.empty())
    config.Reject("local", "only Parquet and Arrow files are fetched from stores; for JSON lines leave it out");
  return [=](const DataContext& context) -> absl::StatusOr<std::shared_ptr<const SampleSource>> {
    if (!format) return OpenFinetuning(options, context.tokenizer);
    ASSIGN_OR_RETURN(std::shared_ptr<const SampleSource> rows, OpenTables(tables, context.open_store));
    return OpenFinetuning(options, context.tokenizer, std::move(rows));
  };
}

}  // namespace

FetchOptions ReadFetchOptions(ConfigMap& config) {
  FetchOptions fetch;
  fetch.local = config.String("local", "");
  if (config.Has("cache_limit")) fetch.cache_limit = config.RequiredInt("cache_limit", {.min = 1});
  fetch.download_retry = static_cast<int>(config.Int("download_retry", fetch.download_retry, {.min = 0, .max = 1000}));
  fetch.download_timeout = absl::Seconds(config.Double("download_timeout", 600, {.min = 0.001}));
  return fetch;
}

std::vector<SourceRow> TableSourceRows() {
  return {{"arrow", ReadArrow}, {"finetuning", ReadFinetuning}, {"parquet", ReadParquet}};
}

}  // namespace composer
