// TensorBoard's event files: tensorflow.Event messages in TFRecord frames. Pure; field numbers are the contract.
//
//   frame    uint64 length, masked CRC-32C of these 8 bytes, data, masked CRC-32C of the data; little-endian
//   first    Event{wall_time, file_version: "brain.Event:2"}
//   then     Event{wall_time, step, summary or session_log}
//
// Source: tensorflow/core/util/event.proto, framework/summary.proto, lib/io/record_writer.cc; tensorboard
// plugins/{text,image,hparams}. Read back by TensorBoard's own reader in tests/integration/tensorboard_test.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "trainer/core/logger.h"

namespace composer {

// Returns one frame.
std::string TensorBoardRecord(absl::string_view data);
// Takes the first frame off `file` and returns its data; nullopt when it is not whole or damaged.
std::optional<absl::string_view> TakeTensorBoardRecord(absl::string_view& file);

// What a reader of our own wants to know about an event.
struct EventFacts {
  int64_t step = 0, epoch = -1;
  bool has_scalars = false, is_restart = false;
};
EventFacts FactsOfEvent(absl::string_view data);

struct EventTime {
  absl::Time wall;
  int64_t step = 0;
  int64_t epoch = -1;  // -1: not written. A field of our own, which readers pass over
};

// Each of these returns the data of one record.
std::string VersionEvent(absl::Time wall);
// Means that the run continues from this step: TensorBoard drops what earlier files say about later steps.
std::string RestartEvent(const EventTime& when);
std::string ScalarsEvent(const EventTime& when, absl::Span<const MetricValue> metrics);
// Markdown is shown on the Text tab.
std::string TextEvent(const EventTime& when, absl::string_view tag, absl::string_view markdown);
// PNG files of one size form one card on the Images tab.
std::string ImagesEvent(const EventTime& when, absl::string_view tag, int width, int height,
                        absl::Span<const std::string> pngs);
// These two fill the HPARAMS tab, at the start of a run and at its end.
std::string HyperparametersEvent(const EventTime& when, absl::string_view run_name,
                                 const Hyperparameters& hyperparameters);
std::string SessionEndEvent(const EventTime& when);

// Returns "| name | value |" lines for TextEvent.
std::string HyperparametersMarkdown(const Hyperparameters& hyperparameters);
// Same as HyperparametersMarkdown, for a table. Line ends within a cell are shown as such; bytes that are not UTF-8,
// which TensorBoard would reject, and other control characters are shown as U+FFFD.
std::string TableMarkdown(const TableRecord& table);

}  // namespace composer
