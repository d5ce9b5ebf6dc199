// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizers/decoder.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "data/text/utf8_repair.h"

namespace composer {
namespace {

// Returns the byte of a token <0x00> to <0xFF>.
std::optional<char> ByteOf(absl::string_view token) {
  if (token.size() != 6 || !absl::ConsumePrefix(&token, "<0x") || !absl::ConsumeSuffix(&token, ">"))
    return std::nullopt;
  int byte = 0;
  for (const char c : token) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    byte = byte * 16 + digit;
  }
  return static_cast<char>(byte);
}

std::string CleanedUp(absl::string_view text) {
  std::string cleaned(text);
  for (const auto& [from, to] :
       std::initializer_list<std::pair<absl::string_view, absl::string_view>>{{" .", "."},
                                                                              {" ?", "?"},
                                                                              {" !", "!"},
                                                                              {" ,", ","},
                                                                              {" ' ", "'"},
                                                                              {" n't", "n't"},
                                                                              {" 'm", "'m"},
                                                                              {" do not", " don't"},
                                                                              {" 's", "'s"},
                                                                              {" 've", "'ve"},
                                                                              {" 're", "'re"}})
    absl::StrReplaceAll({{from, to}}, &cleaned);
  return cleaned;
}

}  // namespace

DecodeStep DecodeWordPiece(std::string prefix, bool cleanup) {
  return [prefix = std::move(prefix), cleanup](std::vector<std::string>& texts) {
    for (size_t i = 0; i < texts.size(); ++i) {
      if (i > 0) texts[i] = absl::StartsWith(texts[i], prefix) ? texts[i].substr(prefix.size()) : " " + texts[i];
      if (cleanup) texts[i] = CleanedUp(texts[i]);
    }
  };
}

DecodeStep DecodeMetaspace(std::string mark, bool drops_first) {
  return [mark = std::move(mark), drops_first](std::vector<std::string>& texts) {
    for (size_t i = 0; i < texts.size(); ++i)
      absl::StrReplaceAll({{mark, i == 0 && drops_first ? "" : " "}}, &texts[i]);
  };
}

DecodeStep DecodeByteFallback() {
  return [](std::vector<std::string>& texts) {
    std::vector<std::string> decoded;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (!IsUtf8(bytes)) bytes = absl::StrJoin(std::vector<std::string>(bytes.size(), "\xef\xbf\xbd"), "");
      decoded.push_back(std::move(bytes));
      bytes.clear();
    };
    for (std::string& text : texts) {
      if (const auto byte = ByteOf(text)) {
        bytes.push_back(*byte);
      } else {
        flush();
        decoded.push_back(std::move(text));
      }
    }
    flush();
    texts = std::move(decoded);
  };
}

DecodeStep DecodeOneToken(std::string token, std::string text) {
  return [token = std::move(token), text = std::move(text)](std::vector<std::string>& texts) {
    for (std::string& decoded : texts) {
      if (decoded == token) decoded = text;
    }
  };
}

DecodeStep DecodeFuse() {
  return [](std::vector<std::string>& texts) { texts = {absl::StrJoin(texts, "")}; };
}

DecodeStep DecodeStrip(std::string content, size_t left, size_t right) {
  return [content = std::move(content), left, right](std::vector<std::string>& texts) {
    for (std::string& text : texts) {
      absl::string_view kept = text;
      for (size_t i = 0; i < left && absl::ConsumePrefix(&kept, content); ++i) {
      }
      for (size_t i = 0; i < right && absl::ConsumeSuffix(&kept, content); ++i) {
      }
      text = std::string(kept);
    }
  };
}

DecodeStep DecodeReplace(std::function<void(absl::string_view, std::vector<TextSpan>&)> find, std::string content) {
  return [find = std::move(find), content = std::move(content)](std::vector<std::string>& texts) {
    for (std::string& text : texts) {
      std::vector<TextSpan> matches;
      find(text, matches);
      std::string replaced;
      size_t done = 0;
      for (const TextSpan match : matches) {
        absl::StrAppend(&replaced, text.substr(done, match.begin - done), content);
        done = match.end;
      }
      text = replaced + text.substr(done);
    }
  };
}

DecodeStep DecodeWordEnd(std::string suffix) {
  return [suffix = std::move(suffix)](std::vector<std::string>& texts) {
    for (size_t i = 0; i < texts.size(); ++i)
      absl::StrReplaceAll({{suffix, i + 1 == texts.size() ? "" : " "}}, &texts[i]);
  };
}

DecodeStep DecodeSpaced() {
  return [](std::vector<std::string>& texts) { texts = {absl::StrJoin(texts, " ")}; };
}

}  // namespace composer
