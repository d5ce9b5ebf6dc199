// SPDX-License-Identifier: Apache-2.0
#include <torch/types.h>

#include "trainer/export/onnx_operators.h"

namespace composer {
namespace {

using Node = torch::jit::Node;
using To = OnnxConverter;

template <const char* kOp>
void Unary(To& to, const Node* node) {
  Give(to, node, to.graph().Node(kOp, {to.InputAs(node, 0, TypeOf(node))}));
}
template <const char* kOp>
void Binary(To& to, const Node* node) {
  if (node->inputs().size() != 2) to.Refuse(node, " with rounding");
  const at::ScalarType type = TypeOf(node);
  Give(to, node, to.graph().Node(kOp, {to.InputAs(node, 0, type), to.InputAs(node, 1, type)}));
}
// Of truth values, not of bits.
template <const char* kOp>
void Logic(To& to, const Node* node) {
  if (TypeOf(node) != at::kBool) to.Refuse(node, " of integers");
  std::vector<std::string> inputs;
  for (size_t i = 0; i < node->inputs().size(); ++i) inputs.push_back(to.InputAs(node, i, at::kBool));
  Give(to, node, to.graph().Node(kOp, inputs));
}
// In the type to which both sides are promoted.
template <const char* kOp>
std::string Compared(To& to, const Node* node) {
  at::ScalarType type = To::Type(node->input(0));
  if (to.IsTensor(node, 1)) type = c10::promoteTypes(type, To::Type(node->input(1)));
  return to.graph().Node(kOp, {to.InputAs(node, 0, type), to.InputAs(node, 1, type)});
}
template <const char* kOp>
void Comparison(To& to, const Node* node) {
  Give(to, node, Compared<kOp>(to, node));
}
constexpr char kAdd[] = "Add", kSub[] = "Sub", kMul[] = "Mul", kDiv[] = "Div", kPow[] = "Pow", kAnd[] = "And",
               kOr[] = "Or", kEqual[] = "Equal", kGreater[] = "Greater", kLess[] = "Less",
               kGreaterOrEqual[] = "GreaterOrEqual", kLessOrEqual[] = "LessOrEqual", kRelu[] = "Relu", kTanh[] = "Tanh",
               kSigmoid[] = "Sigmoid", kExp[] = "Exp", kNeg[] = "Neg", kSin[] = "Sin", kCos[] = "Cos", kSqrt[] = "Sqrt",
               kErf[] = "Erf", kAbs[] = "Abs", kLog[] = "Log", kNot[] = "Not";
constexpr char kReduceMean[] = "ReduceMean", kReduceSum[] = "ReduceSum";

void NotEqual(To& to, const Node* node) { Give(to, node, to.graph().Node("Not", {Compared<kEqual>(to, node)})); }

// a + alpha b, a - alpha b
template <const char* kOp>
void Sum(To& to, const Node* node) {
  const at::ScalarType type = TypeOf(node);
  std::string b = to.InputAs(node, 1, type);
  if (to.Double(node, 2) != 1) b = to.graph().Node("Mul", {b, to.InputAs(node, 2, type)});
  Give(to, node, to.graph().Node(kOp, {to.InputAs(node, 0, type), b}));
}
void ReversedSub(To& to, const Node* node) {
  const at::ScalarType type = TypeOf(node);
  if (to.Double(node, 2) != 1) to.Refuse(node, " with alpha");
  Give(to, node, to.graph().Node("Sub", {to.InputAs(node, 1, type), to.InputAs(node, 0, type)}));
}
void Square(To& to, const Node* node) {
  const std::string x = to.Input(node, 0);
  Give(to, node, to.graph().Node("Mul", {x, x}));
}
void InverseRoot(To& to, const Node* node) {
  Give(to, node, to.graph().Node("Reciprocal", {to.graph().Node("Sqrt", {to.Input(node, 0)})}));
}
void Silu(To& to, const Node* node) {
  const std::string x = to.Input(node, 0);
  Give(to, node, to.graph().Node("Mul", {x, to.graph().Node("Sigmoid", {x})}));
}
void Gelu(To& to, const Node* node) {
  Give(to, node, to.graph().Node("Gelu", {to.Input(node, 0)}, {{"approximate", to.Text(node, 1)}}));
}
void Softmax(To& to, const Node* node) {
  Give(to, node, to.graph().Node("Softmax", {to.InputAs(node, 0, TypeOf(node))}, {{"axis", to.Int(node, 1)}}));
}
void Where(To& to, const Node* node) {
  const at::ScalarType type = TypeOf(node);
  Give(to, node, to.graph().Node("Where", {to.Input(node, 0), to.InputAs(node, 1, type), to.InputAs(node, 2, type)}));
}
void MaskedFill(To& to, const Node* node) {
  const at::ScalarType type = TypeOf(node);
  Give(to, node, to.graph().Node("Where", {to.Input(node, 1), to.InputAs(node, 2, type), to.InputAs(node, 0, type)}));
}

// mean(x, dims, keepdim, dtype), or of all: mean(x, dtype)
template <const char* kOp>
void Reduce(To& to, const Node* node) {
  std::vector<int64_t> dims;
  bool keep = false;
  if (node->inputs().size() == 4) {
    if (!to.IsNone(node, 1)) dims = to.Ints(node, 1);
    keep = to.Bool(node, 2);
  }
  std::vector<std::string> inputs = {to.InputAs(node, 0, TypeOf(node))};
  if (!dims.empty()) inputs.push_back(to.graph().Ints(dims));
  Give(to, node, to.graph().Node(kOp, inputs, {{"keepdims", int64_t{keep}}}));
}
void CumulativeSum(To& to, const Node* node) {
  Give(to, node,
       to.graph().Node("CumSum", {to.InputAs(node, 0, TypeOf(node)),
                                  to.graph().Constant(torch::scalar_tensor(to.Int(node, 1), at::kLong))}));
}

}  // namespace

const OnnxTranslations& OnnxArithmetic() {
  static const auto& table = *new OnnxTranslations{
      {"aten::relu", Unary<kRelu>},
      {"aten::tanh", Unary<kTanh>},
      {"aten::sigmoid", Unary<kSigmoid>},
      {"aten::exp", Unary<kExp>},
      {"aten::neg", Unary<kNeg>},
      {"aten::sin", Unary<kSin>},
      {"aten::cos", Unary<kCos>},
      {"aten::sqrt", Unary<kSqrt>},
      {"aten::erf", Unary<kErf>},
      {"aten::abs", Unary<kAbs>},
      {"aten::log", Unary<kLog>},
      {"aten::logical_not", Logic<kNot>},
      {"aten::bitwise_not", Logic<kNot>},
      {"aten::logical_and", Logic<kAnd>},
      {"aten::logical_or", Logic<kOr>},
      {"aten::__and__", Logic<kAnd>},
      {"aten::bitwise_and", Logic<kAnd>},
      {"aten::rsqrt", InverseRoot},
      {"aten::square", Square},
      {"aten::silu", Silu},
      {"aten::gelu", Gelu},
      {"aten::softmax", Softmax},
      {"aten::add", Sum<kAdd>},
      {"aten::sub", Sum<kSub>},
      {"aten::rsub", ReversedSub},
      {"aten::mul", Binary<kMul>},
      {"aten::div", Binary<kDiv>},
      {"aten::pow", Binary<kPow>},
      {"aten::eq", Comparison<kEqual>},
      {"aten::ne", NotEqual},
      {"aten::gt", Comparison<kGreater>},
      {"aten::lt", Comparison<kLess>},
      {"aten::ge", Comparison<kGreaterOrEqual>},
      {"aten::le", Comparison<kLessOrEqual>},
      {"aten::where", Where},
      {"aten::masked_fill", MaskedFill},
      {"aten::mean", Reduce<kReduceMean>},
      {"aten::sum", Reduce<kReduceSum>},
      {"aten::cumsum", CumulativeSum},
  };
  return table;
}

}  // namespace composer
