// PrintableStream is an output stream for text with foreign names and messages, from manifests and files: whatever a
// tool writes there reaches `out` line by line as PrintableText (base/printable.h) permits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>
#include <streambuf>
#include <string>

#include "base/printable.h"

namespace composer {

class PrintableStream final : private std::streambuf, public std::ostream {
 public:
  // `out` must outlive this object.
  explicit PrintableStream(std::ostream& out) : std::ostream(this), out_(out) {}
  ~PrintableStream() override { Pass(); }

 private:
  // Both bases have these names.
  using Buffer = std::streambuf;
  Buffer::int_type overflow(Buffer::int_type c) override {
    if (c == Buffer::traits_type::eof()) return Buffer::traits_type::not_eof(c);
    line_.push_back(static_cast<char>(c));
    if (c == '\n') Pass();
    return c;
  }
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    line_.append(text, static_cast<size_t>(count));
    if (const size_t end = line_.rfind('\n'); end != std::string::npos) {
      out_ << PrintableText(line_.substr(0, end + 1));
      line_.erase(0, end + 1);
    }
    return count;
  }
  int sync() override {
    Pass();
    out_.flush();
    return 0;
  }
  void Pass() {
    out_ << PrintableText(line_);
    line_.clear();
  }

  std::ostream& out_;
  std::string line_;  // begun but not passed on, since a character may be split over two writes
};

}  // namespace composer
