// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/output/eval_output_logging.h"

#include <torch/types.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/format/json.h"
#include "data/icl/answer_match.h"
#include "trainer/collectives/object_collectives.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

constexpr int64_t kIgnored = -100;  // a target that does not count
constexpr int64_t kMostNumbers = 16;

using Tokens = std::vector<int64_t>;

bool IsInteger(const at::Tensor& tensor) {
  return tensor.defined() && at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false);
}

Tokens Integers(const at::Tensor& row) {
  const at::Tensor flat = row.to(at::kCPU, at::kLong).contiguous().view(-1);
  const int64_t* begin = static_cast<const int64_t*>(flat.const_data_ptr());
  return Tokens(begin, begin + flat.numel());
}

std::string TextOf(const Tokens& tokens, const State& state) {
  return state.tokenizer != nullptr ? state.tokenizer->Decode(tokens, /*skip_special_tokens=*/false)
                                    : absl::StrJoin(tokens, " ");
}

// What a sample is and what became of it, row by row.
struct Answer {
  Tokens target, output;
  bool is_text = false;  // else classes
  bool is_chosen = false;
};

// Returns the tokens of the row without padding.
Tokens InputOf(const Batch& batch, int64_t row) {
  Tokens tokens = Integers(batch.inputs[row]);
  const auto mask = batch.extra.find("attention_mask");
  if (mask == batch.extra.end() || mask->second.sizes() != batch.inputs.sizes()) return tokens;
  const Tokens counts = Integers(mask->second[row]);
  Tokens kept;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (counts[i] != 0) kept.push_back(tokens[i]);
  }
  return kept;
}

// The choice of a question: its tokens are [begin, end) of the inputs, and what comes before each of them predicts it.
Answer ChoiceOf(const State& state, const at::Tensor& likeliest, int64_t row) {
  const Tokens place = Integers(state.batch.extra.at("icl")[row]);
  const Tokens input = Integers(state.batch.inputs[row]), predicted = Integers(likeliest[row]);
  Answer answer;
  answer.is_text = answer.is_chosen = true;
  for (int64_t at = std::max<int64_t>(place[0], 1); at < place[1] && at < static_cast<int64_t>(input.size()); ++at) {
    answer.target.push_back(input[static_cast<size_t>(at)]);
    answer.output.push_back(predicted[static_cast<size_t>(at - 1)]);
  }
  return answer;
}

// The texts that count as right, and the one that the model has written for a question (data/icl_source.h).
struct Written {
  std::string answers, text;
};
std::optional<Written> WrittenFor(const Batch& batch, int64_t row) {
  const auto texts = batch.texts.find(kGenerationsKey), answers = batch.texts.find(kAnswersKey);
  if (texts == batch.texts.end() || answers == batch.texts.end()) return std::nullopt;
  const auto i = static_cast<size_t>(row);
  const auto right = ParseJson(answers->second[i]);
  if (!right.is_array()) return std::nullopt;
  return Written{absl::StrJoin(right.get<std::vector<std::string>>(), " | "), texts->second[i]};
}

Answer AnswerOf(const State& state, const at::Tensor& likeliest, int64_t row) {
  if (!likeliest.defined()) return {};
  if (state.batch.extra.contains("icl") && likeliest.dim() == 2) return ChoiceOf(state, likeliest, row);
  if (!IsInteger(state.batch.targets) || state.batch.targets.sizes() != likeliest.sizes()) return {};
  const Tokens targets = Integers(state.batch.targets[row]), predicted = Integers(likeliest[row]);
  Answer answer;
  answer.is_text = likeliest.dim() > 1 && IsInteger(state.batch.inputs);
  answer.is_chosen = true;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] == kIgnored) continue;
    answer.target.push_back(targets[i]);
    answer.output.push_back(predicted[i]);
  }
  return answer;
}

std::string Numbers(const at::Tensor& row) {
  const at::Tensor flat = row.detach().to(at::kCPU, at::kDouble).contiguous().view(-1);
  const int64_t shown = std::min(flat.numel(), kMostNumbers);
  const double* begin = static_cast<const double*>(flat.const_data_ptr());
  return absl::StrCat(absl::StrJoin(begin, begin + shown, " "), shown < flat.numel() ? " …" : "");
}

// Returns the likeliest class of each place, [B, *]; undefined when the outputs do not have one row per sample, with
// classes last for tokens and second otherwise.
at::Tensor Likeliest(const at::Tensor& outputs, const Batch& batch) {
  const bool of_classes = outputs.defined() && outputs.dim() >= 2 && outputs.size(0) == batch.num_samples &&
                          at::isFloatingType(outputs.scalar_type());
  if (!of_classes) return {};
  const bool classes_second = outputs.dim() > 2 && !IsInteger(batch.inputs);
  const int64_t dim = classes_second ? 1 : outputs.dim() - 1;
  return outputs.size(dim) > 1 ? outputs.detach().argmax(dim) : at::Tensor();
}

}  // namespace

absl::Status EvalOutputLogging::Run(Event event, State& state, Logger& logger) {
  return CatchTorch([&]() -> absl::Status {
    if (event == Event::kEvalEnd) return Log(state, logger);
    if (event == Event::kEvalStart) {
      rows_.clear();
    } else if (state.identity.tensor_rank == 0) {
      Take(state);
    }
    return absl::OkStatus();
  });
}

void EvalOutputLogging::Take(const State& state) {
  const Batch& batch = state.batch;
  const int64_t room = options_.num_samples - static_cast<int64_t>(rows_.size());
  if (room <= 0 || !batch.has_sample_ids()) return;
  const int64_t taken = std::min(room, batch.num_samples);
  const at::Tensor outputs = state.outputs.defined() ? state.outputs.tensor() : at::Tensor();
  const at::Tensor likeliest = Likeliest(outputs, batch);
  const bool is_text = IsInteger(batch.inputs) && batch.inputs.dim() == 2;
  for (int64_t i = 0; i < taken; ++i) {
    const Answer answer = AnswerOf(state, likeliest, i);
    const Tokens input = is_text ? InputOf(batch, i) : Tokens();
    const int64_t sample = batch.sample_ids[static_cast<size_t>(i)];
    const auto text = [&](const Tokens& tokens) {
      return answer.is_text ? TextOf(tokens, state) : absl::StrJoin(tokens, " ");
    };
    const bool rows_fit = outputs.defined() && outputs.dim() >= 1 && outputs.size(0) == batch.num_samples;
    Row row = {absl::StrCat(sample), is_text ? TextOf(input, state) : ""};
    if (options_.log_tokens) row.push_back(absl::StrJoin(input, " "));
    if (const std::optional<Written> written = WrittenFor(batch, i)) {
      row.insert(row.end(), {written->answers, written->text, ""});
      rows_[sample] = std::move(row);
      continue;
    }
    row.push_back(text(answer.target));
    row.push_back(answer.is_chosen ? text(answer.output) : rows_fit ? Numbers(outputs[i]) : "");
    row.push_back(!answer.is_chosen ? "" : answer.target == answer.output ? "true" : "false");
    rows_[sample] = std::move(row);
  }
}

absl::Status EvalOutputLogging::Log(const State& state, Logger& logger) {
  LocalCommunicator alone;
  nlohmann::json own = nlohmann::json::array();
  for (const auto& [sample, row] : rows_) own.push_back({sample, row});
  const std::vector<std::string> all =
      AllGatherBytes(own.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace),
                     communicator_ == nullptr ? alone : *communicator_);
  rows_.clear();
  if (state.identity.rank != 0) return absl::OkStatus();
  std::map<int64_t, Row> merged;
  for (const std::string& part : all) {
    const auto rows = ParseJson(part);
    for (const auto& row : rows) merged[row[0].get<int64_t>()] = row[1].get<Row>();
  }
  std::vector<Row> rows;
  for (auto& [sample, row] : merged) {
    if (static_cast<int64_t>(rows.size()) < options_.num_samples) rows.push_back(std::move(row));
  }
  std::vector<std::string> columns = {"sample", "input", "target", "output", "correct"};
  if (options_.log_tokens) columns.insert(columns.begin() + 2, "tokens");
  const std::string name = absl::StrCat("eval_outputs/", state.evaluation.label);
  if (!rows.empty()) logger.LogTable({state.timestamp, name, columns, rows});
  return absl::OkStatus();
}

}  // namespace composer
