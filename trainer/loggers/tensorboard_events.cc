// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/tensorboard_events.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/format/little_endian.h"
#include "base/format/proto_writer.h"
#include "data/tokenizers/files/proto_reader.h"
#include "trainer/loggers/crc32c.h"

namespace composer {
namespace {

// Event
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7, kEpoch = 9001;
// SessionLog
constexpr int kStatus = 1, kSessionStart = 1;
// Summary and Summary.Value
constexpr int kValue = 1, kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9;
// SummaryMetadata
constexpr int kPluginData = 1, kPluginName = 1, kPluginContent = 2, kDataClass = 4;
constexpr int kTensorClass = 2, kBlobSequenceClass = 3;
// TensorProto
constexpr int kDType = 1, kShape = 2, kStringVal = 8, kDTypeString = 7, kDim = 2, kDimSize = 1;
// HParamsPluginData, SessionStartInfo, SessionEndInfo
constexpr int kSessionStartInfo = 3, kSessionEndInfo = 4, kHparams = 1, kGroupName = 4, kStartTime = 5;
constexpr int kEndStatus = 1, kEndSuccess = 1, kEndTime = 2;
// google.protobuf.Value and map entries
constexpr int kNumberValue = 2, kStringValue = 3, kBoolValue = 4, kMapKey = 1, kMapValue = 2;

double Seconds(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

ProtoWriter EventAt(const EventTime& when) {
  ProtoWriter event;
  event.Double(kWallTime, Seconds(when.wall)).Int(kStep, when.step);
  if (when.epoch >= 0) event.Int(kEpoch, when.epoch);
  return event;
}

std::string SummaryEvent(const EventTime& when, const ProtoWriter& value) {
  ProtoWriter summary;
  summary.Message(kValue, value);
  return EventAt(when).Message(kSummary, summary).bytes();
}

ProtoWriter Strings(absl::Span<const std::string> strings) {
  ProtoWriter dim, shape, tensor;
  dim.Int(kDimSize, static_cast<int64_t>(strings.size()));
  shape.Message(kDim, dim);
  tensor.Int(kDType, kDTypeString).Message(kShape, shape);
  for (const std::string& text : strings) tensor.Bytes(kStringVal, text);
  return tensor;
}

ProtoWriter Metadata(absl::string_view plugin, absl::string_view content, int data_class) {
  ProtoWriter plugin_data, metadata;
  plugin_data.Bytes(kPluginName, plugin).Bytes(kPluginContent, content);
  metadata.Message(kPluginData, plugin_data);
  if (data_class != 0) metadata.Int(kDataClass, data_class);
  return metadata;
}

std::string HparamsEvent(const EventTime& when, absl::string_view tag, int field, const ProtoWriter& info) {
  ProtoWriter data, value;
  data.Message(field, info);
  value.Bytes(kTag, tag).Message(kMetadata, Metadata("hparams", data.bytes(), 0));
  return SummaryEvent(when, value);
}

// Writes numbers as numbers, so that TensorBoard can sort and plot by them.
ProtoWriter Setting(absl::string_view text) {
  ProtoWriter value;
  if (double number = 0; absl::SimpleAtod(text, &number)) {
    value.Double(kNumberValue, number);
  } else if (text == "true" || text == "false") {
    value.Int(kBoolValue, text == "true" ? 1 : 0);
  } else {
    value.Bytes(kStringValue, text);
  }
  return value;
}

}  // namespace

std::string TensorBoardRecord(absl::string_view data) {
  std::string record;
  record.reserve(data.size() + 16);
  AppendNumber<uint64_t>(data.size(), record);
  AppendNumber(MaskedCrc32c(record), record);
  record.append(data.data(), data.size());
  AppendNumber(MaskedCrc32c(data), record);
  return record;
}

std::optional<absl::string_view> TakeTensorBoardRecord(absl::string_view& file) {
  constexpr size_t kFrame = 16;
  if (file.size() < kFrame) return std::nullopt;
  const auto size = NumberAt<uint64_t>(file, 0);
  if (NumberAt(file, 8) != MaskedCrc32c(file.substr(0, 8)) || size > file.size() - kFrame) return std::nullopt;
  const absl::string_view data = file.substr(12, size);
  if (NumberAt(file, 12 + size) != MaskedCrc32c(data)) return std::nullopt;
  file.remove_prefix(kFrame + size);
  return data;
}

EventFacts FactsOfEvent(absl::string_view data) {
  EventFacts facts;
  ProtoReader event(data);
  for (ProtoField field; event.Next(field);) {
    if (field.number == kStep) facts.step = static_cast<int64_t>(field.value);
    if (field.number == kEpoch) facts.epoch = static_cast<int64_t>(field.value);
    if (field.number == kSessionLog) facts.is_restart = true;
    if (field.number != kSummary) continue;
    ProtoReader summary(field.bytes);
    for (ProtoField value; summary.Next(value);) {
      ProtoReader parts(value.bytes);
      for (ProtoField part; parts.Next(part);) facts.has_scalars = facts.has_scalars || part.number == kSimpleValue;
    }
  }
  return facts;
}

std::string VersionEvent(absl::Time wall) {
  ProtoWriter event;
  event.Double(kWallTime, Seconds(wall)).Bytes(kFileVersion, "brain.Event:2");
  return event.bytes();
}

std::string RestartEvent(const EventTime& when) {
  ProtoWriter log;
  log.Int(kStatus, kSessionStart);
  return EventAt(when).Message(kSessionLog, log).bytes();
}

std::string ScalarsEvent(const EventTime& when, absl::Span<const MetricValue> metrics) {
  ProtoWriter summary;
  for (const MetricValue& metric : metrics) {
    ProtoWriter value;
    value.Bytes(kTag, metric.name).Float(kSimpleValue, static_cast<float>(metric.value));
    summary.Message(kValue, value);
  }
  return EventAt(when).Message(kSummary, summary).bytes();
}

std::string TextEvent(const EventTime& when, absl::string_view tag, absl::string_view markdown) {
  ProtoWriter value;
  value.Bytes(kTag, tag)
      .Message(kMetadata, Metadata("text", "", kTensorClass))
      .Message(kTensor, Strings({std::string(markdown)}));
  return SummaryEvent(when, value);
}

std::string ImagesEvent(const EventTime& when, absl::string_view tag, int width, int height,
                        absl::Span<const std::string> pngs) {
  std::vector<std::string> strings = {absl::StrCat(width), absl::StrCat(height)};
  strings.insert(strings.end(), pngs.begin(), pngs.end());
  ProtoWriter value;
  value.Bytes(kTag, tag)
      .Message(kMetadata, Metadata("images", "", kBlobSequenceClass))
      .Message(kTensor, Strings(strings));
  return SummaryEvent(when, value);
}

std::string HyperparametersEvent(const EventTime& when, absl::string_view run_name,
                                 const Hyperparameters& hyperparameters) {
  ProtoWriter info;
  for (const auto& [name, text] : hyperparameters) {
    ProtoWriter entry;
    entry.Bytes(kMapKey, name).Message(kMapValue, Setting(text));
    info.Message(kHparams, entry);
  }
  info.Bytes(kGroupName, run_name).Double(kStartTime, Seconds(when.wall));
  return HparamsEvent(when, "_hparams_/session_start_info", kSessionStartInfo, info);
}

std::string SessionEndEvent(const EventTime& when) {
  ProtoWriter info;
  info.Int(kEndStatus, kEndSuccess).Double(kEndTime, Seconds(when.wall));
  return HparamsEvent(when, "_hparams_/session_end_info", kSessionEndInfo, info);
}

std::string HyperparametersMarkdown(const Hyperparameters& hyperparameters) {
  std::string text = "| name | value |\n|---|---|\n";
  for (const auto& [name, value] : hyperparameters) {
    const std::string shown = absl::StrReplaceAll(value, {{"|", "\\|"}, {"\n", " "}});
    absl::StrAppend(&text, "| ", name, " | ", shown, " |\n");
  }
  return text;
}

namespace {

// Returns the length of the UTF-8 sequence at the start of text, or 0 when there is none. Surrogates, overlong forms
// and code points beyond U+10FFFF are invalid. Source: The Unicode Standard 15.0, table 3-7.
size_t Utf8Length(absl::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  const bool three = first >= 0xE0 && first <= 0xEF, four = first >= 0xF0 && first <= 0xF4;
  if (!(three || four) || !follows(1) || !follows(2)) return 0;
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F)) return 0;
  if ((first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F)) return 0;
  if (three) return 3;
  return follows(3) ? 4 : 0;
}

void AppendCell(absl::string_view cell, std::string& text) {
  while (!cell.empty()) {
    const size_t length = Utf8Length(cell);
    const auto first = static_cast<unsigned char>(cell[0]);
    if (cell[0] == '\n') {
      text += "<br>";
    } else if (absl::StrContains("|<&\\*_`[]", cell.substr(0, 1))) {
      text += absl::StrCat("&#", static_cast<int>(first), ";");
    } else if (length == 0 || (first < ' ' && first != '\t')) {
      text += "\xEF\xBF\xBD";
    } else {
      text.append(cell.data(), length);
    }
    cell.remove_prefix(length == 0 ? 1 : length);
  }
}

}  // namespace

std::string TableMarkdown(const TableRecord& table) {
  std::string text;
  const auto append = [&text](absl::Span<const std::string> cells) {
    text += "|";
    for (const std::string& cell : cells) {
      text += " ";
      AppendCell(cell, text);
      text += " |";
    }
    text += "\n";
  };
  append(table.columns);
  text += "|";
  for (size_t i = 0; i < table.columns.size(); ++i) text += "---|";
  text += "\n";
  for (const std::vector<std::string>& row : table.rows) append(row);
  return text;
}

}  // namespace composer
