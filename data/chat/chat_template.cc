// SPDX-License-Identifier: Apache-2.0
#include "data/chat/chat_template.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/format/json.h"
#include "base/status_macros.h"
#include "data/chat/template_filters.h"

namespace composer {
namespace {

constexpr int64_t kMaxSteps = 1'000'000;
constexpr size_t kMaxOutput = size_t{16} << 20;
// Marks maps that `namespace` made; no JSON has such a key.
constexpr const char* kNamespace = "\x01namespace";

enum class Flow { kOn, kBreak, kContinue };

class Renderer {
 public:
  explicit Renderer(const TemplateValue& variables) {
    scopes_.emplace_back();
    for (const auto& [name, value] : variables.items()) scopes_.back()[name] = value;
  }

  absl::StatusOr<Flow> Run(const TemplateBlock& block) {
    for (const TemplateStatement& statement : block) {
      if (++steps_ > kMaxSteps) return absl::InvalidArgumentError("the template takes too many steps");
      absl::StatusOr<Flow> flow = Run(statement);
      if (!flow.ok()) return AtLine(flow.status(), statement.line);
      if (*flow != Flow::kOn) return flow;
    }
    return Flow::kOn;
  }
  std::string&& output() { return std::move(output_); }

 private:
  using Scope = absl::flat_hash_map<std::string, TemplateValue>;

  // The innermost line stays.
  static absl::Status AtLine(const absl::Status& status, int64_t line) {
    if (absl::StartsWith(status.message(), "line ")) return status;
    return absl::Status(status.code(), absl::StrCat("line ", line, ": ", status.message()));
  }

  absl::Status Print(absl::string_view text) {
    if (output_.size() + text.size() > kMaxOutput) return absl::InvalidArgumentError("the text becomes too long");
    absl::StrAppend(&output_, text);
    return absl::OkStatus();
  }

  absl::StatusOr<Flow> Run(const TemplateStatement& statement) {
    using Kind = TemplateStatement::Kind;
    switch (statement.kind) {
      case Kind::kText:
        RETURN_IF_ERROR(Print(statement.text));
        return Flow::kOn;
      case Kind::kOutput: {
        ASSIGN_OR_RETURN(const TemplateValue value, Eval(*statement.expr));
        ASSIGN_OR_RETURN(const std::string text, TextOf(value));
        RETURN_IF_ERROR(Print(text));
        return Flow::kOn;
      }
      case Kind::kIf: {
        ASSIGN_OR_RETURN(const TemplateValue condition, Eval(*statement.expr));
        return Run(IsTrue(condition) ? statement.body : statement.otherwise);
      }
      case Kind::kFor:
        return Loop(statement);
      case Kind::kSet:
        RETURN_IF_ERROR(Set(statement));
        return Flow::kOn;
      case Kind::kBreak:
        return Flow::kBreak;
      case Kind::kContinue:
        return Flow::kContinue;
    }
    return Flow::kOn;
  }

  TemplateValue* Find(const std::string& name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto found = scope->find(name); found != scope->end()) return &found->second;
    }
    return nullptr;
  }

  absl::Status Set(const TemplateStatement& statement) {
    TemplateValue value;
    if (statement.expr != nullptr) {
      ASSIGN_OR_RETURN(value, Eval(*statement.expr));
    } else {
      std::string before = std::exchange(output_, "");
      ASSIGN_OR_RETURN(const Flow flow, Run(statement.body));
      if (flow != Flow::kOn) return absl::InvalidArgumentError("a loop is left inside of `set`");
      value = std::exchange(output_, std::move(before));
    }
    if (statement.field.empty()) {
      scopes_.back()[statement.text] = std::move(value);
      return absl::OkStatus();
    }
    TemplateValue* const place = Find(statement.text);
    if (place == nullptr || !place->is_object() || !place->contains(kNamespace))
      return absl::InvalidArgumentError(absl::StrCat("`", statement.text, "` is not a namespace"));
    (*place)[statement.field] = std::move(value);
    return absl::OkStatus();
  }

  // What the loop goes through: elements, keys of a map, characters of a text.
  absl::StatusOr<std::vector<TemplateValue>> ItemsOf(const TemplateStatement& statement) {
    ASSIGN_OR_RETURN(const TemplateValue whole, Eval(*statement.expr));
    if (!whole.is_structured() && !whole.is_string() && !whole.is_discarded())
      return absl::InvalidArgumentError("only lists, maps and texts can be gone through");
    ASSIGN_OR_RETURN(const TemplateValue list, ApplyFilter("list", whole, {}));
    std::vector<TemplateValue> items;
    for (const TemplateValue& item : list) {
      if (++steps_ > kMaxSteps) return absl::InvalidArgumentError("the template takes too many steps");
      if (statement.only != nullptr) {
        scopes_.emplace_back();
        const absl::Status bound = Bind(statement, item);
        const absl::StatusOr<TemplateValue> wanted = bound.ok() ? Eval(*statement.only) : bound;
        scopes_.pop_back();
        RETURN_IF_ERROR(wanted.status());
        if (!IsTrue(*wanted)) continue;
      }
      items.push_back(item);
    }
    return items;
  }

  absl::Status Bind(const TemplateStatement& statement, const TemplateValue& item) {
    if (statement.names.size() == 1) {
      scopes_.back()[statement.names[0]] = item;
      return absl::OkStatus();
    }
    if (!item.is_array() || item.size() != statement.names.size())
      return absl::InvalidArgumentError(absl::StrCat("an item does not have ", statement.names.size(), " parts"));
    for (size_t i = 0; i < item.size(); ++i) scopes_.back()[statement.names[i]] = item[i];
    return absl::OkStatus();
  }

  static TemplateValue LoopFacts(const std::vector<TemplateValue>& items, size_t i) {
    const auto at = static_cast<int64_t>(i), size = static_cast<int64_t>(items.size());
    TemplateValue loop = {
        {"index", at + 1},  {"index0", at},           {"revindex", size - at}, {"revindex0", size - at - 1},
        {"first", at == 0}, {"last", at + 1 == size}, {"length", size}};
    if (i > 0) loop["previtem"] = items[i - 1];
    if (i + 1 < items.size()) loop["nextitem"] = items[i + 1];
    return loop;
  }

  absl::StatusOr<Flow> Loop(const TemplateStatement& statement) {
    ASSIGN_OR_RETURN(const std::vector<TemplateValue> items, ItemsOf(statement));
    if (items.empty()) return Run(statement.otherwise);
    for (size_t i = 0; i < items.size(); ++i) {
      scopes_.emplace_back();
      scopes_.back()["loop"] = LoopFacts(items, i);
      const absl::Status bound = Bind(statement, items[i]);
      const absl::StatusOr<Flow> flow = bound.ok() ? Run(statement.body) : bound;
      scopes_.pop_back();
      if (!flow.ok()) return flow;
      if (*flow == Flow::kBreak) break;
    }
    return Flow::kOn;
  }

  absl::StatusOr<TemplateArguments> ArgumentsOf(const TemplateExpr& call) {
    TemplateArguments arguments;
    for (size_t i = 1; i < call.parts.size(); ++i) {
      ASSIGN_OR_RETURN(arguments.values.emplace_back(), Eval(*call.parts[i]));
    }
    for (const auto& [name, expr] : call.named) {
      ASSIGN_OR_RETURN(TemplateValue value, Eval(*expr));
      arguments.named.emplace_back(name, std::move(value));
    }
    return arguments;
  }

  absl::StatusOr<TemplateValue> Call(const TemplateExpr& call) {
    const std::string& name = call.parts[0]->text;
    ASSIGN_OR_RETURN(const TemplateArguments arguments, ArgumentsOf(call));
    if (name == "raise_exception") {
      const bool says = arguments.values.size() == 1 && arguments.values[0].is_string();
      return absl::InvalidArgumentError(absl::StrCat(
          "the template refuses this: ", says ? arguments.values[0].get_ref<const std::string&>() : "no reason given"));
    }
    if (name == "namespace" || name == "dict") {
      TemplateValue made = TemplateValue::object();
      if (name == "namespace") made[kNamespace] = true;
      for (const auto& [key, value] : arguments.named) made[key] = value;
      return made;
    }
    if (name == "range") return Range(arguments);
    return absl::InvalidArgumentError(absl::StrCat("the function `", name.substr(0, 40), "` is not supported"));
  }

  absl::StatusOr<TemplateValue> Range(const TemplateArguments& arguments) {
    std::vector<int64_t> bounds;
    for (const TemplateValue& value : arguments.values) {
      if (!value.is_number_integer()) return absl::InvalidArgumentError("range: needs whole numbers");
      bounds.push_back(value.get<int64_t>());
    }
    if (bounds.empty() || bounds.size() > 3) return absl::InvalidArgumentError("range: needs one to three numbers");
    const int64_t begin = bounds.size() > 1 ? bounds[0] : 0, end = bounds.size() > 1 ? bounds[1] : bounds[0],
                  step = bounds.size() > 2 ? bounds[2] : 1;
    if (step == 0) return absl::InvalidArgumentError("range: the step must not be 0");
    TemplateValue list = TemplateValue::array();
    for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
      if (++steps_ > kMaxSteps) return absl::InvalidArgumentError("the template takes too many steps");
      list.push_back(i);
    }
    return list;
  }

  absl::StatusOr<TemplateValue> Eval(const TemplateExpr& expr) {
    if (++steps_ > kMaxSteps) return absl::InvalidArgumentError("the template takes too many steps");
    using Kind = TemplateExpr::Kind;
    switch (expr.kind) {
      case Kind::kLiteral:
        return expr.value;
      case Kind::kName: {
        const TemplateValue* const found = Find(expr.text);
        return found == nullptr ? Undefined() : *found;
      }
      case Kind::kList:
      case Kind::kDict:
        return Collect(expr);
      case Kind::kCall:
        return Call(expr);
      case Kind::kUnary:
      case Kind::kBinary:
      case Kind::kChoice:
        return Decide(expr);
      default:
        return OfValue(expr);
    }
  }

  absl::StatusOr<TemplateValue> Collect(const TemplateExpr& expr) {
    const bool is_list = expr.kind == TemplateExpr::Kind::kList;
    TemplateValue made = is_list ? TemplateValue::array() : TemplateValue::object();
    for (size_t i = 0; i < expr.parts.size(); i += is_list ? 1 : 2) {
      ASSIGN_OR_RETURN(TemplateValue first, Eval(*expr.parts[i]));
      if (is_list) {
        made.push_back(std::move(first));
        continue;
      }
      ASSIGN_OR_RETURN(TemplateValue value, Eval(*expr.parts[i + 1]));
      if (!first.is_string()) return absl::InvalidArgumentError("keys of maps must be texts");
      made[first.get<std::string>()] = std::move(value);
    }
    return made;
  }

  // Operators, of which some look at one side only.
  absl::StatusOr<TemplateValue> Decide(const TemplateExpr& expr) {
    if (expr.kind == TemplateExpr::Kind::kChoice) {
      ASSIGN_OR_RETURN(const TemplateValue condition, Eval(*expr.parts[1]));
      if (IsTrue(condition)) return Eval(*expr.parts[0]);
      return expr.parts[2] == nullptr ? Undefined() : Eval(*expr.parts[2]);
    }
    ASSIGN_OR_RETURN(TemplateValue a, Eval(*expr.parts[0]));
    if (expr.kind == TemplateExpr::Kind::kUnary) {
      if (expr.text == "not") return !IsTrue(a);
      return expr.text == "-" ? CombineValues("-", 0, a) : CombineValues("+", 0, a);
    }
    if (expr.text == "or" || expr.text == "and") return IsTrue(a) == (expr.text == "or") ? a : Eval(*expr.parts[1]);
    ASSIGN_OR_RETURN(const TemplateValue b, Eval(*expr.parts[1]));
    return CombineValues(expr.text, a, b);
  }

  // Subscripts, comparisons, filters, tests and methods.
  absl::StatusOr<TemplateValue> OfValue(const TemplateExpr& expr) {
    using Kind = TemplateExpr::Kind;
    ASSIGN_OR_RETURN(const TemplateValue value, Eval(*expr.parts[0]));
    if (expr.kind == Kind::kItem || expr.kind == Kind::kCompare) {
      ASSIGN_OR_RETURN(const TemplateValue other, Eval(*expr.parts[1]));
      return expr.kind == Kind::kItem ? ItemOf(value, other) : CompareValues(expr.text, value, other);
    }
    if (expr.kind == Kind::kSlice) {
      TemplateValue bounds[3];
      for (size_t i = 0; i < 3; ++i) {
        if (expr.parts[i + 1] == nullptr) continue;
        ASSIGN_OR_RETURN(bounds[i], Eval(*expr.parts[i + 1]));
      }
      return SliceOf(value, bounds[0], bounds[1], bounds[2]);
    }
    ASSIGN_OR_RETURN(const TemplateArguments arguments, ArgumentsOf(expr));
    if (expr.kind == Kind::kFilter) return ApplyFilter(expr.text, value, arguments);
    if (expr.kind == Kind::kMethod) return CallMethod(expr.text, value, arguments);
    ASSIGN_OR_RETURN(const bool passes, ApplyTest(expr.text, value, arguments));
    return passes;
  }

  std::vector<Scope> scopes_;
  std::string output_;
  int64_t steps_ = 0;
};

}  // namespace

absl::StatusOr<ChatTemplate> ChatTemplate::Parse(absl::string_view text) {
  ASSIGN_OR_RETURN(TemplateBlock block, ParseTemplate(text));
  ChatTemplate made;
  made.block_ = std::make_shared<const TemplateBlock>(std::move(block));
  return made;
}

absl::StatusOr<std::string> ChatTemplate::Render(const TemplateValue& variables) const {
  if (!variables.is_object()) return absl::InvalidArgumentError("the variables of a template are not a map");
  Renderer renderer(variables);
  RETURN_IF_ERROR(renderer.Run(*block_).status());
  return renderer.output();
}

absl::StatusOr<std::optional<std::string>> FindChatTemplate(const std::string& folder) {
  const std::string own = JoinPath(folder, "chat_template.jinja");
  if (PathExists(own)) {
    ASSIGN_OR_RETURN(std::string text, ReadFile(own, int64_t{1} << 20));
    return text;
  }
  const std::string path = JoinPath(folder, "tokenizer_config.json");
  if (!PathExists(path)) return std::nullopt;
  ASSIGN_OR_RETURN(const std::string json, ReadFile(path, int64_t{16} << 20));
  const auto config = ParseJson(json);
  if (!config.is_object()) return absl::DataLossError(absl::StrCat(path, ": is no JSON object"));
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (found->is_array()) {
    for (const auto& named : *found) {
      const bool is_default = named.is_object() && named.contains("name") && named["name"] == "default";
      if (is_default && named.contains("template") && named["template"].is_string())
        return named["template"].get<std::string>();
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": chat_template: must be a text, or a list with one named `default`"));
}

absl::StatusOr<ChatTemplate> ReadChatTemplate(const std::string& path) {
  std::optional<std::string> text;
  if (IsDirectory(path)) {
    ASSIGN_OR_RETURN(text, FindChatTemplate(path));
  } else {
    ASSIGN_OR_RETURN(text, ReadFile(path, int64_t{1} << 20));
  }
  if (!text.has_value())
    return absl::NotFoundError(
        absl::StrCat(path, " has neither chat_template.jinja nor a tokenizer_config.json with `chat_template`"));
  return ChatTemplate::Parse(*text);
}

}  // namespace composer
