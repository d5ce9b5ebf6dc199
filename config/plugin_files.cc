// SPDX-License-Identifier: Apache-2.0
#include "config/plugin_files.h"

#include <sys/stat.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "config/elf_note.h"

namespace composer {

std::vector<std::string> ReadPluginFiles(ConfigMap& root, const std::string& yaml_path) {
  const std::filesystem::path folder = DirName(AbsolutePath(yaml_path));
  std::vector<std::string> paths;
  std::set<std::pair<dev_t, ino_t>> seen;
  for (const std::string& written : root.StringList("plugins", {})) {
    const std::string path = (folder / written).lexically_normal();
    struct stat file{};
    if (stat(path.c_str(), &file) != 0) {
      const absl::Status status = ErrnoStatus(errno, "reading", path);
      root.Reject("plugins",
                  absl::StrCat("`", written, "`: ", status.message(), " (paths start at the folder of the YAML file)"));
    } else if (!S_ISREG(file.st_mode)) {
      root.Reject("plugins", absl::StrCat("`", written, "`: ", path, " is not a file"));
    } else if (!seen.insert({file.st_dev, file.st_ino}).second) {
      root.Reject("plugins", absl::StrCat("`", written, "`: listed twice"));
    } else {
      paths.push_back(path);
    }
  }
  return paths;
}

absl::StatusOr<PluginFacts> ReadPluginFacts(const std::vector<std::string>& paths) {
  PluginFacts facts;
  facts.schema = BuiltInSchema();
  std::string hashes;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kMaxPluginBytes));
    absl::StrAppendFormat(&hashes, "%016x", XXH3_64bits(bytes.data(), bytes.size()));
    absl::StatusOr<std::string> table = FindElfNote(bytes, kPluginNoteOwner, kPluginKeysNoteType);
    if (!table.ok()) {
      facts.open_names = true;  // if the file is damaged, loading it reports that
      continue;
    }
    table->resize(strnlen(table->data(), table->size()));
    RETURN_IF_ERROR(Annotate(facts.schema.Add(*table), absl::StrCat("plugin ", path, ": its table of keys")));
  }
  facts.hash = hashes.size() <= 16 ? hashes : absl::StrFormat("%016x", XXH3_64bits(hashes.data(), hashes.size()));
  return facts;
}

}  // namespace composer
