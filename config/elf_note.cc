// SPDX-License-Identifier: Apache-2.0
#include "config/elf_note.h"

#include <elf.h>

#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#else
#error "config/elf_note.cc: name this machine's e_machine"
#endif

// Returns the T at this offset, or nothing when the file ends before it.
template <typename T>
std::optional<T> Read(absl::string_view bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

absl::Status Bad(absl::string_view what) { return absl::InvalidArgumentError(what); }

absl::StatusOr<Elf64_Ehdr> ReadHeader(absl::string_view file) {
  if (file.size() < SELFMAG || std::memcmp(file.data(), ELFMAG, SELFMAG) != 0)
    return Bad("not a shared library (it is no ELF file)");
  const auto header = Read<Elf64_Ehdr>(file, 0);
  if (!header.has_value()) return Bad("not a shared library (the file is cut off)");
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
      header->e_machine != kMachine)
    return Bad(absl::StrCat("built for another machine (ELF class ", header->e_ident[EI_CLASS], ", machine ",
                            header->e_machine, "; this one is class ", ELFCLASS64, ", machine ", kMachine, ")"));
  if (header->e_type != ET_DYN) return Bad("an ELF file, but not a shared library (link it with -shared)");
  if (header->e_phentsize != sizeof(Elf64_Phdr)) return Bad("damaged: its program headers have a wrong size");
  return *header;
}

uint64_t RoundUp(uint64_t value, uint64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

// Finds the note in a PT_NOTE segment. Sizes are 32 bits wide, so sums of them fit.
std::optional<absl::string_view> FindInSegment(absl::string_view segment, uint64_t alignment, absl::string_view owner,
                                               uint32_t type) {
  uint64_t at = 0;
  while (const auto note = Read<Elf64_Nhdr>(segment, at)) {
    const uint64_t name = at + sizeof(Elf64_Nhdr);
    const uint64_t content = RoundUp(name + note->n_namesz, alignment);
    if (content > segment.size() || segment.size() - content < note->n_descsz) return std::nullopt;
    absl::string_view found = segment.substr(name, note->n_namesz);
    if (!found.empty() && found.back() == '\0') found.remove_suffix(1);
    if (found == owner && note->n_type == type) return segment.substr(content, note->n_descsz);
    at = RoundUp(content + note->n_descsz, alignment);
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::string> FindElfNote(absl::string_view file, absl::string_view owner, uint32_t type) {
  const absl::StatusOr<Elf64_Ehdr> header = ReadHeader(file);
  if (!header.ok()) return header.status();
  std::optional<absl::string_view> note;
  for (uint64_t i = 0; i < header->e_phnum; ++i) {
    const auto segment =
        header->e_phoff > file.size() ? std::nullopt : Read<Elf64_Phdr>(file, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment.has_value()) return Bad("damaged: the file ends before its program headers do");
    // All segments are checked: the loader would map bytes that do not exist, and crash when it reads them.
    if (segment->p_offset > file.size() || file.size() - segment->p_offset < segment->p_filesz)
      return Bad("damaged: the file ends before its segments do");
    if (segment->p_type != PT_NOTE || note.has_value()) continue;
    const uint64_t alignment = segment->p_align == 8 ? 8 : 4;
    note = FindInSegment(file.substr(segment->p_offset, segment->p_filesz), alignment, owner, type);
  }
  if (note.has_value()) return std::string(*note);
  return absl::NotFoundError(absl::StrCat("no note of ", owner));
}

}  // namespace composer
