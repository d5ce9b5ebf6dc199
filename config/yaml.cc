// SPDX-License-Identifier: Apache-2.0
#include "config/yaml.h"

#include <yaml-cpp/emitter.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/utf8.h"

namespace composer {
namespace {

constexpr int kMaxNodes = 100'000;
constexpr int kMaxDepth = 64;

int CountNodes(const ConfigNode& node) {
  int count = 1;
  for (const ConfigNode& child : node.children) count += CountNodes(child);
  return count;
}

int Height(const ConfigNode& node) {
  int height = 0;
  for (const ConfigNode& child : node.children) height = std::max(height, Height(child));
  return height + 1;
}

// Adds the keys of `base` that `map` lacks.
void MergeMissing(const ConfigNode& base, ConfigNode& map) {
  for (const ConfigNode& child : base.children) {
    if (map.Find(child.key) == nullptr) map.children.push_back(child);
  }
}

// Builds the tree from the parser's events. Errors after which parsing makes no sense are thrown as ParserException.
class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::string source) : source_(std::move(source)) {}

  ConfigNode TakeRoot() { return std::move(root_); }
  const std::vector<std::string>& errors() const { return errors_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Add(Make(ConfigNode::Kind::kNull, mark), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) throw YAML::ParserException(mark, "an alias to a value that is not complete yet");
    if (static_cast<int>(stack_.size()) + Height(found->second) > kMaxDepth)
      throw YAML::ParserException(mark, "nested too deep");
    CountOrThrow(mark, CountNodes(found->second));
    ConfigNode copy = found->second;
    copy.mark = At(mark);
    Add(std::move(copy), 0);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    ConfigNode node = Make(ConfigNode::Kind::kScalar, mark);
    node.scalar = value;
    absl::string_view name = tag;
    if (name == "!" || name == "tag:yaml.org,2002:str") {
      node.quoted = true;
    } else if (absl::ConsumePrefix(&name, "tag:yaml.org,2002:") && name == "null") {
      node.kind = ConfigNode::Kind::kNull;
    } else if (name != "" && name != "?" && name != "int" && name != "float" && name != "bool") {
      throw YAML::ParserException(mark, absl::StrCat("the tag ", tag, " is not supported"));
    }
    Add(std::move(node), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Push(ConfigNode::Kind::kList, mark, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Push(ConfigNode::Kind::kMap, mark, anchor);
  }
  void OnSequenceEnd() override { Pop(); }
  void OnMapEnd() override { Pop(); }

 private:
  struct Frame {
    ConfigNode node;
    YAML::anchor_t anchor = 0;
    bool has_key = false;
    ConfigNode key;
    std::vector<ConfigNode> merges;
  };

  SourceMark At(const YAML::Mark& mark) const { return {source_, mark.line + 1, mark.column + 1}; }

  ConfigNode Make(ConfigNode::Kind kind, const YAML::Mark& mark) {
    CountOrThrow(mark, 1);
    ConfigNode node;
    node.kind = kind;
    node.mark = At(mark);
    return node;
  }

  void CountOrThrow(const YAML::Mark& mark, int nodes) {
    count_ += nodes;
    if (count_ > kMaxNodes) throw YAML::ParserException(mark, "more than 100000 values");
  }

  void Push(ConfigNode::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (stack_.size() >= kMaxDepth) throw YAML::ParserException(mark, "nested too deep");
    Frame frame;
    frame.node = Make(kind, mark);
    frame.anchor = anchor;
    stack_.push_back(std::move(frame));
  }

  void Pop() {
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    for (const ConfigNode& base : frame.merges) MergeMissing(base, frame.node);
    Add(std::move(frame.node), frame.anchor);
  }

  void Add(ConfigNode node, YAML::anchor_t anchor) {
    if (anchor != 0) anchors_[anchor] = node;
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& parent = stack_.back();
    if (parent.node.is_list()) {
      parent.node.children.push_back(std::move(node));
    } else if (!parent.has_key) {
      if (!node.is_scalar()) Fail(node.mark, absl::StrCat("a key must be a text, not ", node.Describe()));
      parent.key = std::move(node);
      parent.has_key = true;
    } else {
      parent.has_key = false;
      AddEntry(parent, std::move(node));
    }
  }

  void AddEntry(Frame& parent, ConfigNode value) {
    if (parent.key.scalar == "<<" && !parent.key.quoted) {
      AddMerge(parent, std::move(value));
      return;
    }
    value.key = parent.key.scalar;
    value.key_mark = parent.key.mark;
    if (const ConfigNode* first = parent.node.Find(value.key)) {
      Fail(value.key_mark,
           absl::StrCat("`", value.key, "` is given twice (first at ", first->key_mark.ToString(), ")"));
      return;
    }
    parent.node.children.push_back(std::move(value));
  }

  void AddMerge(Frame& parent, ConfigNode value) {
    std::vector<ConfigNode> bases;
    if (value.is_list()) {
      bases = std::move(value.children);
    } else {
      bases.push_back(std::move(value));
    }
    for (ConfigNode& base : bases) {
      if (!base.is_map()) Fail(base.mark, absl::StrCat("`<<` merges maps, not ", base.Describe()));
      if (base.is_map()) parent.merges.push_back(std::move(base));
    }
  }

  void Fail(const SourceMark& mark, absl::string_view message) {
    errors_.push_back(absl::StrCat(mark.ToString(), ": ", message));
  }

  const std::string source_;
  std::vector<Frame> stack_;
  std::map<YAML::anchor_t, ConfigNode> anchors_;
  ConfigNode root_;
  int count_ = 0;
  std::vector<std::string> errors_;
};

void ForgetLines(ConfigNode& node) {
  node.mark.line = node.key_mark.line = 0;
  for (ConfigNode& child : node.children) ForgetLines(child);
}

// Quotes some texts that yaml-cpp writes plain but would read back as something else.
void EmitText(const std::string& text, bool quoted, YAML::Emitter& out) {
  const bool control = std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (quoted || control || text == "<<") out << YAML::DoubleQuoted;
  out << text;
}

void Emit(const ConfigNode& node, bool shown, YAML::Emitter& out) {
  switch (node.kind) {
    case ConfigNode::Kind::kNull:
      if (shown && !node.written.empty()) return EmitText(node.written, /*quoted=*/false, out);
      out << YAML::Null;
      return;
    case ConfigNode::Kind::kScalar:
      EmitText(shown ? node.shown() : node.scalar, node.quoted, out);
      return;
    case ConfigNode::Kind::kList:
      out << YAML::BeginSeq;
      for (const ConfigNode& child : node.children) Emit(child, shown, out);
      out << YAML::EndSeq;
      return;
    case ConfigNode::Kind::kMap:
      out << YAML::BeginMap;
      for (const ConfigNode& child : node.children) {
        out << YAML::Key;
        EmitText(child.key, /*quoted=*/false, out);
        out << YAML::Value;
        Emit(child, shown, out);
      }
      out << YAML::EndMap;
  }
}

absl::Status NotUtf8(absl::string_view text, size_t bad, const std::string& source) {
  const absl::string_view before = text.substr(0, bad);
  const size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
  const SourceMark mark{source, 1 + static_cast<int>(std::count(before.begin(), before.end(), '\n')),
                        1 + static_cast<int>(bad - line_begin)};
  return absl::InvalidArgumentError(absl::StrCat(mark.ToString(), ": the byte 0x",
                                                 absl::Hex(static_cast<uint8_t>(text[bad])),
                                                 " is not valid UTF-8: save the file as UTF-8"));
}

// What the parser says, with what is usually wrong.
std::string SyntaxAdvice(const std::string& message) {
  constexpr std::pair<absl::string_view, absl::string_view> kAdvice[] = {
      {"end of map flow not found", "a `{` before this is not closed by a `}`"},
      {"end of sequence flow not found", "a `[` before this is not closed by a `]`"},
      {"illegal map value", "a value with `: ` in it must be in quotes, and keys of one map have the same indentation"},
      {"end of map not found", "keys of one map must have the same indentation"},
      {"end of sequence not found", "the `-` of one list must have the same indentation"},
      {"illegal tab", "indent with spaces, not with tabs"},
      {"unknown token", "a text that begins with a character like this must be in quotes"},
  };
  for (const auto& [said, advice] : kAdvice) {
    if (absl::StrContains(message, said)) return absl::StrCat(message, ": ", advice);
  }
  return message;
}

}  // namespace

absl::StatusOr<ConfigNode> ParseYaml(absl::string_view text, const std::string& source) {
  if (const size_t bad = FirstBadUtf8(text); bad != absl::string_view::npos) return NotUtf8(text, bad, source);
  TreeBuilder builder(source);
  std::vector<std::string> errors;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    errors = builder.errors();
    TreeBuilder rest(source);
    if (parser.HandleNextDocument(rest))
      errors.push_back(absl::StrCat(source, ": one YAML document is expected, there are more"));
  } catch (const YAML::Exception& error) {
    errors = builder.errors();
    const SourceMark mark{source, error.mark.line + 1, error.mark.column + 1};
    errors.push_back(absl::StrCat(mark.ToString(), ": ", SyntaxAdvice(error.msg)));
  }
  if (!errors.empty()) return absl::InvalidArgumentError(absl::StrJoin(errors, "\n"));
  ConfigNode root = builder.TakeRoot();
  if (root.mark.source.empty()) root.mark.source = source;  // an empty text has no mark
  return root;
}

absl::StatusOr<ConfigNode> ParseYamlValue(absl::string_view text, const std::string& source) {
  absl::StatusOr<ConfigNode> node = ParseYaml(text, source);
  if (node.ok()) ForgetLines(*node);
  return node;
}

std::string ToYaml(const ConfigNode& node) {
  YAML::Emitter out;
  Emit(node, /*shown=*/false, out);
  return absl::StrCat(out.c_str(), "\n");
}

std::string ToShownYaml(const ConfigNode& node) {
  YAML::Emitter out;
  Emit(node, /*shown=*/true, out);
  return absl::StrCat(out.c_str(), "\n");
}

}  // namespace composer
