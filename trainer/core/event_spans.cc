// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/event_spans.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace composer {

EventSpans::EventSpans(std::string prefix, absl::string_view category)
    : prefix_(std::move(prefix)), category_(category) {}

const TraceName& EventSpans::At(Event event) {
  std::unique_ptr<Made>& slot = made_[static_cast<size_t>(event)];
  if (slot == nullptr) {
    slot = std::make_unique<Made>();
    slot->text = absl::StrCat(prefix_, "event/", EventName(event));
    slot->name = {slot->text, category_};
  }
  return slot->name;
}

}  // namespace composer
