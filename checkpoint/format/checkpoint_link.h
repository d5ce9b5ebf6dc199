// A link gives a checkpoint a second name, which the user has chosen (save_filename): a small object, somewhere in the
// folder of checkpoints, that holds the way from itself to the checkpoint, "../ep1-ba20\n" or "./ep1-ba20\n". Composer
// writes such files into object stores, too (`.symlink`). The checkpoint remembers its link, and both are deleted
// together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "checkpoint/format/checkpoint_name.h"
#include "storage/object_store.h"

namespace composer {

// A checkpoint's small state has its link's key under this key, as a JSON string.
inline constexpr char kLinkKey[] = "link";

// Links are no longer than this.
inline constexpr int64_t kMaxLinkBytes = 256;

// Returns whether an object of this key may be a link: it is a key, and not that of anything else in such a folder.
bool MayBeLink(absl::string_view key);

// Returns the content of the link of this key.
std::string LinkText(absl::string_view key, CheckpointName checkpoint);

// Returns the checkpoint's place when an object at `place` (a path or a URL) with this text is a link; nullopt if it is
// not one, or leads out of the URL's host or bucket. Fuzzed: tests/fuzz/checkpoint_link_fuzz.cc.
std::optional<std::string> FollowLink(absl::string_view place, absl::string_view text);

// Returns the link's key in a checkpoint's small state; "" if there is none.
std::string LinkOf(const std::map<std::string, std::string>& small);
// Writes the link that the checkpoint's small state names, if any.
absl::Status PutLink(ObjectStore& store, const std::map<std::string, std::string>& small, CheckpointName checkpoint);
// Deletes it, unless it leads to another checkpoint by now.
absl::Status DeleteLink(ObjectStore& store, const std::map<std::string, std::string>& small, CheckpointName checkpoint);

}  // namespace composer
