// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizers/normalize/rewriting.h"

#include <memory>
#include <utility>

#include "data/text/characters.h"

namespace composer {
namespace {

class Replace final : public Normalizer {
 public:
  Replace(TextFinder find, std::string content) : find_(std::move(find)), content_(std::move(content)) {}
  void Apply(AlignedText& text) const override {
    std::vector<TextSpan> matches;
    find_(text.view(), matches);
    if (matches.empty()) return;
    TextRewriter out(text);
    uint32_t end = 0;
    for (const TextSpan match : matches) {
      out.Keep(end, match.begin);
      if (!content_.empty()) out.Put(content_, match.end - CodePointBefore(out.from(), match.end).length);
      end = match.end;
    }
    out.Keep(end, out.from().size());
    out.Finish();
  }

 private:
  const TextFinder find_;
  const std::string content_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void Apply(AlignedText& text) const override {
    if (text.view().empty()) return;
    TextRewriter out(text);
    out.Put(prefix_, 0);
    out.Keep(0, out.from().size());
    out.Finish();
  }

 private:
  const std::string prefix_;
};

class NormalizerSequence final : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<NormalizerPtr> parts) : parts_(std::move(parts)) {}
  void Apply(AlignedText& text) const override {
    for (const NormalizerPtr& part : parts_) part->Apply(text);
  }

 private:
  const std::vector<NormalizerPtr> parts_;
};

}  // namespace

NormalizerPtr MakeReplace(TextFinder find, std::string content) {
  return std::make_unique<Replace>(std::move(find), std::move(content));
}
NormalizerPtr MakePrepend(std::string prefix) { return std::make_unique<Prepend>(std::move(prefix)); }
NormalizerPtr MakeNormalizerSequence(std::vector<NormalizerPtr> parts) {
  return std::make_unique<NormalizerSequence>(std::move(parts));
}

}  // namespace composer
