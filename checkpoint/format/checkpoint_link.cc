// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/checkpoint_link.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/format/json.h"

namespace composer {

std::string LinkText(absl::string_view key, CheckpointName checkpoint) {
  std::string text;
  for (auto up = std::count(key.begin(), key.end(), '/'); up > 0; --up) text += "../";
  return absl::StrCat(text.empty() ? "./" : text, checkpoint.ToString(), "\n");
}

bool MayBeLink(absl::string_view key) {
  const absl::string_view first = key.substr(0, key.find('/'));
  return CheckKey(key).ok() && first != "lease" && !CheckpointName::Parse(first).has_value();
}

std::optional<std::string> FollowLink(absl::string_view place, absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  const auto parent = [&place] {
    const size_t slash = place.rfind('/');
    place = slash == absl::string_view::npos ? "" : place.substr(0, slash);
  };
  const size_t scheme = place.find("://");
  const size_t root = scheme == place.npos ? 1 : std::min(place.find('/', scheme + 3), place.size());
  const bool beside = absl::ConsumePrefix(&text, "./");
  parent();
  bool above = false;
  while (!beside && absl::ConsumePrefix(&text, "../")) {
    above = true;
    parent();
  }
  if ((!beside && !above) || place.size() < root || !CheckpointName::Parse(text).has_value()) return std::nullopt;
  return absl::StrCat(place, "/", text);
}

std::string LinkOf(const std::map<std::string, std::string>& small) {
  const auto found = small.find(kLinkKey);
  if (found == small.end()) return "";
  const auto json = ParseJson(found->second);
  const std::string key = json.is_string() ? json.get<std::string>() : "";
  return MayBeLink(key) ? key : "";
}

absl::Status PutLink(ObjectStore& store, const std::map<std::string, std::string>& small, CheckpointName checkpoint) {
  const std::string key = LinkOf(small);
  return key.empty() ? absl::OkStatus() : store.Put(key, {LinkText(key, checkpoint)});
}

absl::Status DeleteLink(ObjectStore& store, const std::map<std::string, std::string>& small,
                        CheckpointName checkpoint) {
  const std::string key = LinkOf(small);
  if (key.empty()) return absl::OkStatus();
  const absl::StatusOr<std::string> text = GetObject(store, key, kMaxLinkBytes);
  return text.ok() && *text == LinkText(key, checkpoint) ? store.Delete(key) : absl::OkStatus();
}

}  // namespace composer
