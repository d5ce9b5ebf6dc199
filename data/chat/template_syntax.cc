// SPDX-License-Identifier: Apache-2.0
#include "data/chat/template_syntax.h"

#include <algorithm>
#include <initializer_list>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/chat/template_lexer.h"

namespace composer {
namespace {

using Expr = std::unique_ptr<TemplateExpr>;
using Kind = TemplateExpr::Kind;
using Word = TemplateWord::Kind;

constexpr size_t kMaxTemplateBytes = 1 << 20;
constexpr int kMaxDepth = 100;

// Errors are thrown inside of this file.
struct SyntaxFault {
  std::string what;
};

Expr Make(Kind kind, int64_t line, std::string text = "") {
  auto expr = std::make_unique<TemplateExpr>();
  expr->kind = kind;
  expr->line = line;
  expr->text = std::move(text);
  return expr;
}
Expr With(Expr expr, Expr a, Expr b = nullptr) {
  expr->parts.push_back(std::move(a));
  if (b != nullptr) expr->parts.push_back(std::move(b));
  return expr;
}

// The expressions of one tag.
class ExprParser {
 public:
  explicit ExprParser(const TemplatePiece& piece) : words_(piece.words), line_(piece.line) {}

  bool Is(absl::string_view text) const {
    const TemplateWord& word = words_[at_];
    return (word.kind == Word::kSign || word.kind == Word::kName) && word.text == text;
  }
  bool Take(absl::string_view text) {
    if (!Is(text)) return false;
    ++at_;
    return true;
  }
  void Expect(absl::string_view text) {
    if (!Take(text)) Fail(absl::StrCat("`", text, "` is missing in front of `", Shown(), "`"));
  }
  std::string Name() {
    if (words_[at_].kind != Word::kName) Fail(absl::StrCat("a name is missing in front of `", Shown(), "`"));
    return words_[at_++].text;
  }
  void End() {
    if (words_[at_].kind != Word::kEnd) Fail(absl::StrCat("`", Shown(), "` is not expected"));
  }
  bool AtEnd() const { return words_[at_].kind == Word::kEnd; }
  [[noreturn]] void Fail(absl::string_view what) const { throw SyntaxFault{absl::StrCat("line ", line_, ": ", what)}; }

  // A tuple without brackets is a list.
  Expr Tuple() {
    Expr first = Whole();
    if (!Is(",")) return first;
    Expr list = With(Make(Kind::kList, line_), std::move(first));
    while (Take(",") && !AtEnd()) list->parts.push_back(Whole());
    return list;
  }

  Expr Whole(bool with_choice = true) {
    if (++depth_ > kMaxDepth) Fail("an expression is too deep");
    Expr expr = Or();
    while (with_choice && Take("if")) {
      Expr choice = With(Make(Kind::kChoice, line_), std::move(expr), Or());
      choice->parts.push_back(Take("else") ? Whole() : nullptr);
      expr = std::move(choice);
    }
    --depth_;
    return expr;
  }

 private:
  std::string Shown() const { return AtEnd() ? "the end of the tag" : words_[at_].text.substr(0, 40); }

  using Level = Expr (ExprParser::*)();
  Expr LeftToRight(Level next, std::initializer_list<const char*> signs) {
    Expr expr = (this->*next)();
    int count = 0;
    while (true) {
      const auto sign = std::find_if(signs.begin(), signs.end(), [&](const char* s) { return Is(s); });
      if (sign == signs.end()) return expr;
      if (++count > kMaxDepth) Fail("an expression is too long");
      ++at_;
      expr = With(Make(Kind::kBinary, line_, *sign), std::move(expr), (this->*next)());
    }
  }
  Expr Or() { return LeftToRight(&ExprParser::And, {"or"}); }
  Expr And() { return LeftToRight(&ExprParser::Not, {"and"}); }
  Expr Not() {
    if (!Take("not")) return Comparison();
    if (++depth_ > kMaxDepth) Fail("an expression is too deep");
    Expr expr = With(Make(Kind::kUnary, line_, "not"), Not());
    --depth_;
    return expr;
  }
  Expr Comparison() {
    Expr expr = Sum();
    bool one = false;
    while (true) {
      std::string sign;
      for (const char* s : {"==", "!=", "<=", ">=", "<", ">", "in"}) {
        if (sign.empty() && Is(s)) sign = s;
      }
      const bool negated =
          sign.empty() && Is("not") && words_[at_ + 1].kind == Word::kName && words_[at_ + 1].text == "in";
      if (sign.empty() && !negated) return expr;
      if (one) Fail("a chain of comparisons is not supported");
      one = true;
      at_ += negated ? 2 : 1;
      expr = With(Make(Kind::kCompare, line_, negated ? "in" : sign), std::move(expr), Sum());
      if (negated) expr = With(Make(Kind::kUnary, line_, "not"), std::move(expr));
    }
  }
  Expr Sum() { return LeftToRight(&ExprParser::Joined, {"+", "-"}); }
  Expr Joined() { return LeftToRight(&ExprParser::Product, {"~"}); }
  Expr Product() { return LeftToRight(&ExprParser::SignedFiltered, {"*", "//", "/", "%"}); }
  Expr SignedFiltered() {
    Expr expr = Signed();
    int count = 0;
    while (true) {
      if (++count > kMaxDepth) Fail("an expression is too long");
      if (Take("|")) {
        Expr filter = With(Make(Kind::kFilter, line_, Name()), std::move(expr));
        if (Is("(")) Arguments(*filter);
        expr = std::move(filter);
      } else if (Take("is")) {
        const bool negated = Take("not");
        Expr test = With(Make(Kind::kTest, line_, Name()), std::move(expr));
        if (Is("(")) {
          Arguments(*test);
        } else if (StartsOperand()) {
          test->parts.push_back(Postfix(Primary()));
        }
        expr = negated ? With(Make(Kind::kUnary, line_, "not"), std::move(test)) : std::move(test);
      } else {
        return expr;
      }
    }
  }
  bool StartsOperand() const {
    const TemplateWord& word = words_[at_];
    if (word.kind == Word::kText || word.kind == Word::kInt || word.kind == Word::kFloat) return true;
    if (word.kind == Word::kSign) return word.text == "[" || word.text == "{";
    if (word.kind != Word::kName) return false;
    for (const char* reserved : {"else", "or", "and", "is", "in", "not", "if"}) {
      if (word.text == reserved) return false;
    }
    return true;
  }
  Expr Signed() {
    for (const char* sign : {"-", "+"}) {
      if (!Take(sign)) continue;
      if (++depth_ > kMaxDepth) Fail("an expression is too deep");
      Expr expr = With(Make(Kind::kUnary, line_, sign), Signed());
      --depth_;
      return expr;
    }
    return Postfix(Primary());
  }

  Expr Literal(TemplateValue value) {
    Expr expr = Make(Kind::kLiteral, line_);
    expr->value = std::move(value);
    return expr;
  }
  Expr Primary() {
    const TemplateWord& word = words_[at_];
    if (word.kind == Word::kName) {
      ++at_;
      if (word.text == "true" || word.text == "True") return Literal(true);
      if (word.text == "false" || word.text == "False") return Literal(false);
      if (word.text == "none" || word.text == "None") return Literal(nullptr);
      return Make(Kind::kName, line_, word.text);
    }
    if (word.kind == Word::kText) {
      std::string text;
      while (words_[at_].kind == Word::kText) text += words_[at_++].text;
      return Literal(std::move(text));
    }
    if (word.kind == Word::kInt || word.kind == Word::kFloat) return Number();
    if (Take("(")) {
      if (Take(")")) return Make(Kind::kList, line_);
      Expr expr = Tuple();
      Expect(")");
      return expr;
    }
    if (Is("[")) return List();
    if (Is("{")) return Dict();
    Fail(absl::StrCat("`", Shown(), "` is not expected"));
  }
  Expr Number() {
    const TemplateWord& word = words_[at_++];
    int64_t whole = 0;
    double real = 0;
    if (word.kind == Word::kInt && absl::SimpleAtoi(word.text, &whole)) return Literal(whole);
    if (word.kind == Word::kFloat && absl::SimpleAtod(word.text, &real)) return Literal(real);
    Fail(absl::StrCat("`", word.text.substr(0, 40), "` is too large a number"));
  }
  Expr List() {
    Expr list = Make(Kind::kList, line_);
    Expect("[");
    while (!Take("]")) {
      list->parts.push_back(Whole());
      if (!Take(",") && !Is("]")) Expect("]");
    }
    return list;
  }
  Expr Dict() {
    Expr dict = Make(Kind::kDict, line_);
    Expect("{");
    while (!Take("}")) {
      dict->parts.push_back(Whole());
      Expect(":");
      dict->parts.push_back(Whole());
      if (!Take(",") && !Is("}")) Expect("}");
    }
    return dict;
  }
  void Arguments(TemplateExpr& call) {
    Expect("(");
    while (!Take(")")) {
      if (words_[at_].kind == Word::kName && words_[at_ + 1].kind == Word::kSign && words_[at_ + 1].text == "=") {
        std::string name = Name();
        ++at_;
        call.named.emplace_back(std::move(name), Whole());
      } else {
        call.parts.push_back(Whole());
      }
      if (!Take(",") && !Is(")")) Expect(")");
    }
  }
  Expr Postfix(Expr expr) {
    for (int count = 0; count < kMaxDepth; ++count) {
      if (Take(".")) {
        const bool is_number = words_[at_].kind == Word::kInt;
        Expr key = is_number ? Number() : Literal(Name());
        if (!is_number && Is("(")) {
          Expr call = With(Make(Kind::kMethod, line_, key->value.get<std::string>()), std::move(expr));
          Arguments(*call);
          expr = std::move(call);
        } else {
          expr = With(Make(Kind::kItem, line_), std::move(expr), std::move(key));
        }
      } else if (Take("[")) {
        expr = Subscript(std::move(expr));
      } else if (Is("(")) {
        if (expr->kind != Kind::kName) Fail("only names and methods can be called");
        Expr call = With(Make(Kind::kCall, line_), std::move(expr));
        Arguments(*call);
        expr = std::move(call);
      } else {
        return expr;
      }
    }
    Fail("an expression is too long");
  }
  Expr Subscript(Expr expr) {
    Expr first = Is(":") ? nullptr : Whole();
    if (!Is(":")) {
      Expect("]");
      return With(Make(Kind::kItem, line_), std::move(expr), std::move(first));
    }
    Expr slice = With(Make(Kind::kSlice, line_), std::move(expr));
    slice->parts.push_back(std::move(first));
    for (int i = 0; i < 2; ++i) slice->parts.push_back(Take(":") && !Is(":") && !Is("]") ? Whole() : nullptr);
    Expect("]");
    return slice;
  }

  const std::vector<TemplateWord>& words_;
  int64_t line_;
  size_t at_ = 0;
  int depth_ = 0;
};

// The statements of a template.
class BlockParser {
 public:
  explicit BlockParser(const std::vector<TemplatePiece>& pieces) : pieces_(pieces) {}

  TemplateBlock Whole() {
    TemplateBlock block = Block({}, 0);
    return block;
  }

 private:
  using SKind = TemplateStatement::Kind;

  // Returns the first word of a statement, "" of another piece.
  std::string Tag(size_t i) const {
    return pieces_[i].kind == TemplatePiece::Kind::kStatement ? pieces_[i].words[0].text : "";
  }

  // Reads up to a tag of `ends`, which it leaves; without any, up to the end.
  TemplateBlock Block(const std::vector<std::string>& ends, int depth) {
    if (depth > kMaxDepth) throw SyntaxFault{"blocks are too deep"};
    TemplateBlock block;
    const int64_t line = at_ > 0 ? pieces_[at_ - 1].line : 1;
    for (; at_ < pieces_.size();) {
      const TemplatePiece& piece = pieces_[at_];
      const std::string tag = Tag(at_);
      if (!tag.empty() && std::find(ends.begin(), ends.end(), tag) != ends.end()) return block;
      ++at_;
      if (tag == "generation" || tag == "endgeneration") continue;  // marks for training, without output
      block.push_back(Statement(piece, tag, depth));
      block.back().line = piece.line;
    }
    if (!ends.empty()) throw SyntaxFault{absl::StrCat("line ", line, ": a block has no `", ends.back(), "`")};
    return block;
  }

  TemplateStatement Statement(const TemplatePiece& piece, const std::string& tag, int depth) {
    TemplateStatement made;
    ExprParser parser(piece);
    if (piece.kind == TemplatePiece::Kind::kText) {
      made.text = piece.text;
      return made;
    }
    if (piece.kind == TemplatePiece::Kind::kOutput) {
      made.kind = SKind::kOutput;
      made.expr = parser.Tuple();
      parser.End();
      return made;
    }
    parser.Name();
    if (tag == "if") {
      If(parser, made, depth);
    } else if (tag == "for") {
      For(parser, made, depth);
    } else if (tag == "set") {
      Set(parser, made, depth);
    } else if (tag == "break" || tag == "continue") {
      made.kind = tag == "break" ? SKind::kBreak : SKind::kContinue;
      parser.End();
      if (loops_ == 0) parser.Fail(absl::StrCat("`", tag, "` is outside of a loop"));
    } else {
      parser.Fail(absl::StrCat("`", tag.substr(0, 40), "` is not supported"));
    }
    return made;
  }

  // Leaves the tag that ends the block behind.
  void If(ExprParser& parser, TemplateStatement& made, int depth) {
    made.kind = SKind::kIf;
    made.expr = parser.Tuple();
    parser.End();
    made.body = Block({"elif", "else", "endif"}, depth + 1);
    const TemplatePiece& end = pieces_[at_];
    ExprParser next(end);
    const std::string tag = next.Name();
    ++at_;
    if (tag == "elif") {
      TemplateStatement other;
      other.line = end.line;
      If(next, other, depth + 1);
      made.otherwise.push_back(std::move(other));
    } else {
      next.End();
      if (tag == "else") Close(made.otherwise, "endif", depth);
    }
  }

  void Close(TemplateBlock& block, const char* end, int depth) {
    block = Block({end}, depth + 1);
    ExprParser parser(pieces_[at_++]);
    parser.Name();
    parser.End();
  }

  void For(ExprParser& parser, TemplateStatement& made, int depth) {
    made.kind = SKind::kFor;
    const bool in_brackets = parser.Take("(");
    do {
      made.names.push_back(parser.Name());
    } while (parser.Take(","));
    if (in_brackets) parser.Expect(")");
    parser.Expect("in");
    made.expr = parser.Whole(/*with_choice=*/false);
    if (parser.Take("if")) made.only = parser.Whole();
    if (parser.Is("recursive")) parser.Fail("`recursive` is not supported");
    parser.End();
    ++loops_;
    made.body = Block({"else", "endfor"}, depth + 1);
    --loops_;
    ExprParser end(pieces_[at_++]);
    const bool has_else = end.Name() == "else";
    end.End();
    if (has_else) Close(made.otherwise, "endfor", depth);
  }

  void Set(ExprParser& parser, TemplateStatement& made, int depth) {
    made.kind = SKind::kSet;
    made.text = parser.Name();
    if (parser.Take(".")) made.field = parser.Name();
    if (parser.Is(",")) parser.Fail("`set` of several names is not supported");
    if (parser.Take("=")) {
      made.expr = parser.Tuple();
      parser.End();
    } else {
      parser.End();
      Close(made.body, "endset", depth);
    }
  }

  const std::vector<TemplatePiece>& pieces_;
  size_t at_ = 0;
  int loops_ = 0;
};

}  // namespace

absl::StatusOr<TemplateBlock> ParseTemplate(absl::string_view text) {
  if (text.size() > kMaxTemplateBytes) return absl::InvalidArgumentError("a template has at most 1 MiB");
  ASSIGN_OR_RETURN(const std::vector<TemplatePiece> pieces, CutTemplate(text));
  try {
    return BlockParser(pieces).Whole();
  } catch (const SyntaxFault& fault) {
    return absl::InvalidArgumentError(fault.what);
  }
}

}  // namespace composer
