// Tokenizes a file in documents of 4 KB on one thread and prints MB a CPU second, three times: the first with an empty
// cache of words. With `--ids` it writes the tokens of texts instead, for benchmarks/tokenize_peers.py: it reads a
// 32-bit size and the bytes of each text and writes a 32-bit count and the 32-bit tokens.
//   tokenize TOKENIZER FILE [gpt2|cl100k|qwen2|o200k] [--ids]
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string>

#include "absl/strings/str_format.h"
#include "base/file.h"
#include "data/tokenizers/files/tokenizer_files.h"

namespace composer {
namespace {

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void Measure(const TextTokenizer& tokenizer, absl::string_view text) {
  TokenList tokens;
  for (int round = 0; round < 3; ++round) {
    const double start = CpuSeconds();
    size_t count = 0;
    for (size_t at = 0; at < text.size();) {
      size_t end = std::min(text.size(), at + 4096);
      while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) ++end;
      tokens.Clear();
      tokenizer.EncodeInto(text.substr(at, end - at), tokens);
      count += tokens.size();
      at = end;
    }
    absl::PrintF("%d tokens, %.1f MB a CPU second\n", count,
                 1e-6 * static_cast<double>(text.size()) / (CpuSeconds() - start));
  }
}

void WriteIds(const TextTokenizer& tokenizer, absl::string_view input) {
  while (input.size() >= 4) {
    uint32_t size = 0;
    std::copy_n(input.data(), 4, reinterpret_cast<char*>(&size));
    TokenList tokens;
    tokenizer.EncodeInto(input.substr(4, size), tokens);
    const auto count = static_cast<uint32_t>(tokens.size());
    std::fwrite(&count, 4, 1, stdout);
    std::fwrite(tokens.ids(), 4, count, stdout);
    input.remove_prefix(std::min<size_t>(input.size(), 4 + size_t{size}));
  }
}

int Run(int count, char** arguments) {
  const bool ids = count > 3 && std::string(arguments[count - 1]) == "--ids";
  if (ids) --count;
  OpenTokenizerOptions options;
  if (count > 3) options.pattern = PatternOfName(arguments[3]).value();
  if (count < 3) return 64;
  const auto tokenizer = OpenTokenizer(arguments[1], options);
  const auto text = ReadFile(arguments[2]);
  if (!tokenizer.ok() || !text.ok()) {
    absl::FPrintF(stderr, "%s\n", (tokenizer.ok() ? text.status() : tokenizer.status()).message());
    return 64;
  }
  if (ids) {
    WriteIds(**tokenizer, *text);
  } else {
    Measure(**tokenizer, *text);
  }
  return 0;
}

}  // namespace
}  // namespace composer

int main(int count, char** arguments) { return composer::Run(count, arguments); }
