// SPDX-License-Identifier: Apache-2.0
#include "config/elf_note.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace composer {
namespace {

using ::testing::HasSubstr;

struct Note {
  std::string owner;
  uint32_t type;
  std::string content;
};

void Append(std::string& bytes, const void* data, size_t size, size_t alignment = 1) {
  bytes.append(static_cast<const char*>(data), size);
  bytes.append((alignment - bytes.size() % alignment) % alignment, '\0');
}

// Returns a shared library that consists only of a header and one note segment.
std::string Library(const std::vector<Note>& notes, size_t alignment = 4) {
  std::string segment;
  for (const Note& note : notes) {
    const Elf64_Nhdr head{static_cast<uint32_t>(note.owner.size() + 1), static_cast<uint32_t>(note.content.size()),
                          note.type};
    Append(segment, &head, sizeof(head));
    Append(segment, note.owner.c_str(), note.owner.size() + 1, alignment);
    Append(segment, note.content.data(), note.content.size(), alignment);
  }
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_type = ET_DYN;
#if defined(__x86_64__)
  header.e_machine = EM_X86_64;
#else
  header.e_machine = EM_AARCH64;
#endif
  header.e_phoff = sizeof(header);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 1;
  Elf64_Phdr program{};
  program.p_type = PT_NOTE;
  program.p_offset = sizeof(header) + sizeof(program);
  program.p_filesz = segment.size();
  program.p_align = alignment;
  std::string file;
  Append(file, &header, sizeof(header));
  Append(file, &program, sizeof(program));
  return file + segment;
}

template <typename Field>
std::string With(std::string file, size_t offset, Field value) {
  std::memcpy(file.data() + offset, &value, sizeof(value));
  return file;
}

TEST(ElfNote, FindsItsOwnAmongOthers) {
  for (const size_t alignment : {4, 8}) {
    const std::string file =
        Library({{"GNU", 3, "abc"}, {"Composer", 2, "another type"}, {"Composer", 1, "mine"}, {"Composer", 1, "later"}},
                alignment);
    EXPECT_EQ(FindElfNote(file, "Composer", 1).value(), "mine") << alignment;
    EXPECT_EQ(FindElfNote(file, "Composer", 9).status().code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(FindElfNote(file, "Compos", 1).status().code(), absl::StatusCode::kNotFound);
  }
}

TEST(ElfNote, SaysWhatAFileIsInstead) {
  const std::string good = Library({{"Composer", 1, "mine"}});
  const struct {
    std::string file;
    const char* message;
  } cases[] = {
      {"", "no ELF file"},
      {"#!/bin/sh\n", "no ELF file"},
      {good.substr(0, 20), "cut off"},
      {With(good, EI_CLASS, char{ELFCLASS32}), "another machine"},
      {With(good, offsetof(Elf64_Ehdr, e_machine), uint16_t{EM_S390}), "another machine"},
      {With(good, offsetof(Elf64_Ehdr, e_type), uint16_t{ET_REL}), "-shared"},
      {With(good, offsetof(Elf64_Ehdr, e_phoff), ~uint64_t{0} - 8), "before its program headers"},
      {With(Library({{"GNU", 1, "x"}}), offsetof(Elf64_Ehdr, e_phnum), uint16_t{9}), "before its program headers"},
      {With(good, sizeof(Elf64_Ehdr) + offsetof(Elf64_Phdr, p_offset), ~uint64_t{0}), "before its segments"},
      {With(good, sizeof(Elf64_Ehdr) + offsetof(Elf64_Phdr, p_filesz), ~uint64_t{0}), "before its segments"},
  };
  for (const auto& c : cases) {
    const absl::Status status = FindElfNote(c.file, "Composer", 1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
  }
}

TEST(ElfNote, LyingSizesEndTheSearch) {
  const std::string good = Library({{"Composer", 1, "mine"}});
  const size_t note = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr);
  for (const size_t field : {offsetof(Elf64_Nhdr, n_namesz), offsetof(Elf64_Nhdr, n_descsz)}) {
    for (const uint32_t size : {uint32_t{64}, ~uint32_t{0}})
      EXPECT_EQ(FindElfNote(With(good, note + field, size), "Composer", 1).status().code(),
                absl::StatusCode::kNotFound);
  }
  for (size_t end = 0; end < good.size(); ++end) EXPECT_FALSE(FindElfNote(good.substr(0, end), "Composer", 1).ok());
}

}  // namespace
}  // namespace composer
