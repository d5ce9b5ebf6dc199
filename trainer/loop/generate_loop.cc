// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/generate_loop.h"

#include <torch/types.h>

#include <algorithm>
#include <numeric>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainer/core/callback.h"
#include "trainer/core/model_sharding.h"
#include "trainer/core/torch_status.h"
#include "trainer/loop/autocast.h"
#include "trainer/loop/text_ends.h"
#include "trainer/models/beam_search.h"
#include "trainer/models/logits_processors.h"

namespace composer {
absl::StatusOr<CausalDecoder*> DecoderOf(Model& model) {
  auto* decoder = dynamic_cast<CausalDecoder*>(&model);
  if (decoder != nullptr) return decoder;
  return absl::InvalidArgumentError(
      "generate: the model is not a language model; it must be a gpt, or derive from LanguageModel or CausalDecoder "
      "(trainer/models/causal_decoder.h)");
}

absl::Status Validate(const GenerateOptions& options, const TokenLists& prompts, const CausalDecoder& decoder) {
  const auto refuse = [](auto... parts) { return absl::InvalidArgumentError(absl::StrCat("generate: ", parts...)); };
  if (options.max_new_tokens < 1) return refuse("max_new_tokens must be at least 1, got ", options.max_new_tokens);
  if (options.batch_size < 0) return refuse("batch_size must be at least 0 (0: all), got ", options.batch_size);
  for (const int64_t eos : options.eos_token_id) {
    if (eos < 0 || eos >= decoder.vocab())
      return refuse("eos_token_id must be from 0 to ", decoder.vocab() - 1, " (the model's vocabulary), got ", eos);
  }
  RETURN_IF_ERROR(Annotate(Validate(options.sampling), "generate"));
  RETURN_IF_ERROR(Annotate(Validate(options.logits, options.max_new_tokens), "generate"));
  RETURN_IF_ERROR(Annotate(Validate(options.beams), "generate"));
  RETURN_IF_ERROR(Annotate(ValidateStops(options.stop_strings), "generate"));
  if (options.beams.num_beams > 1 && options.sampling.do_sample)
    return refuse("num_beams above 1 needs do_sample: false: a beam search takes the likeliest texts, without draws");
  if (options.beams.num_beams > 1 && options.on_text)
    return refuse("num_beams above 1 cannot stream: which text is the best is known at the end only");
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i].empty()) return refuse("prompts[", i, "] is empty: there must be a token to go on from");
    const auto tokens = static_cast<int64_t>(prompts[i].size());
    if (tokens > decoder.context() - options.max_new_tokens) {
      return refuse("prompts[", i, "] of ", tokens, " tokens and max_new_tokens ", options.max_new_tokens,
                    " are more than the model's ", decoder.context(), " (max_seq_len)");
    }
    for (const int64_t token : prompts[i]) {
      if (token < 0 || token >= decoder.vocab())
        return refuse("prompts[", i, "] has token ", token, ", the model's vocabulary ends at ", decoder.vocab() - 1);
    }
  }
  return absl::OkStatus();
}

PromptShare ShareOf(size_t prompts, int rank, int ranks) {
  const auto r = static_cast<size_t>(rank), n = static_cast<size_t>(ranks);
  return {prompts * r / n, prompts * (r + 1) / n, (prompts + n - 1) / n};
}

namespace {

// Generates for the prompts of one rank.
class Generation {
 public:
  Generation(const TokenLists& prompts, const GenerateOptions& options, CausalDecoder& decoder, State& state,
             Communicator& data_ranks)
      : prompts_(prompts),
        options_(options),
        decoder_(decoder),
        state_(state),
        data_ranks_(data_ranks),
        ends_(options, state, decoder) {}

  // Returns the new tokens of the rank's own prompts.
  TokenLists Run(const PromptShare& share) {
    const torch::NoGradGuard no_grad;
    const bool was_training = state_.model->is_training();
    state_.model->eval();
    const auto restore = absl::MakeCleanup([&] { state_.model->train(was_training); });
    ModelSharding* const sharding = state_.sharding;
    const bool whole = sharding != nullptr && (options_.summon_full_params || sharding->keeps_whole());
    gathered_ = whole ? nullptr : sharding;
    if (whole) sharding->BeginWhole();
    const auto end = absl::MakeCleanup([&] {
      if (whole) sharding->AbandonForward();
    });
    const size_t batch = options_.on_text           ? 1
                         : options_.batch_size == 0 ? share.most
                                                    : static_cast<size_t>(options_.batch_size);
    for (size_t n = 0; n < share.most; n += batch)
      RunBatch(std::min(share.begin + n, share.end), std::min(share.begin + n + batch, share.end));
    return std::move(results_);
  }

 private:
  struct Row {
    size_t sample;  // the prompt's index
    std::vector<int64_t> tokens;
    bool done = false;
  };
  bool has_beams() const { return options_.beams.num_beams > 1; }

  // A prompt has a row, or one for each beam.
  void RunBatch(size_t begin, size_t end) {
    rows_.clear();
    searches_.clear();
    int64_t longest = 0;
    for (size_t i = begin; i < end; ++i) {
      for (int64_t beam = 0; beam < options_.beams.num_beams; ++beam) rows_.push_back({i, prompts_[i]});
      if (has_beams()) searches_.emplace_back(options_.beams, options_.max_new_tokens, options_.eos_token_id.size());
      longest = std::max(longest, static_cast<int64_t>(prompts_[i].size()));
    }
    std::unique_ptr<DecoderCache> cache;
    // The last new token is not fed to the model.
    if (options_.use_cache && !rows_.empty())
      cache = decoder_.NewCache(static_cast<int64_t>(rows_.size()), longest + options_.max_new_tokens - 1);
    for (int64_t place = 0; place < options_.max_new_tokens && AnyIsOpen(); ++place) {
      if (std::all_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.done; })) {
        gathered_->SkipForward();
        continue;
      }
      at::Tensor logits = Forward(place == 0, cache.get());
      if (has_beams()) {
        AdvanceBeams(logits, cache.get());
      } else {
        Append(logits, static_cast<uint64_t>(place));
      }
    }
    for (size_t i = 0; i < rows_.size() && !has_beams(); ++i) {
      const auto prompt = static_cast<int64_t>(prompts_[rows_[i].sample].size());
      results_.emplace_back(rows_[i].tokens.begin() + prompt, rows_[i].tokens.end());
    }
    for (const BeamSearch& search : searches_) results_.push_back(search.best());
  }

  // Returns whether a row on this rank is unfinished; where all ranks must make the same passes, on any rank.
  bool AnyIsOpen() {
    const bool own = std::any_of(rows_.begin(), rows_.end(), [](const Row& row) { return !row.done; });
    if (gathered_ == nullptr || data_ranks_.world_size() == 1) return own;
    const bool all_go_on = options_.eos_token_id.empty() && options_.stop_strings.empty() && !has_beams();
    if (all_go_on) return true;
    double open = own ? 1 : 0;
    data_ranks_.AllReduceSum(absl::MakeSpan(&open, 1));
    return open > 0;
  }

  // Returns the logits [B, vocab] on the host.
  at::Tensor Forward(bool first, DecoderCache* cache) {
    std::vector<int64_t> lengths;
    for (const Row& row : rows_) lengths.push_back(static_cast<int64_t>(row.tokens.size()));
    const bool one = cache != nullptr && !first;
    const int64_t columns = one ? 1 : *std::max_element(lengths.begin(), lengths.end());
    const at::Tensor tokens = at::zeros({static_cast<int64_t>(rows_.size()), columns}, at::kLong);
    int64_t* place = tokens.mutable_data_ptr<int64_t>();
    for (const Row& row : rows_) {
      std::copy(one ? row.tokens.end() - 1 : row.tokens.begin(), row.tokens.end(), place);
      place += columns;
    }
    WholeModelScope scope(gathered_);
    const AutocastScope autocast(state_.settings.precision, state_.identity.device.type());
    at::Tensor logits = decoder_.NextLogits(tokens.to(state_.identity.device), lengths, cache);
    logits = logits.to(at::kCPU, at::kFloat).clone(at::MemoryFormat::Contiguous);  // it is changed in place
    scope.End();
    return logits;
  }

  absl::Span<float> ScoresOf(const at::Tensor& logits, size_t row, size_t rows = 1) const {
    const auto vocab = static_cast<size_t>(logits.size(1));
    return {logits.mutable_data_ptr<float>() + row * vocab, rows * vocab};
  }
  absl::Span<const int64_t> NewTokens(const Row& row) const {
    return absl::MakeConstSpan(row.tokens).subspan(prompts_[row.sample].size());
  }
  void Process(const Row& row, absl::Span<float> scores) const {
    ProcessLogits(options_.logits, options_.eos_token_id, row.tokens, prompts_[row.sample].size(), scores);
  }

  void Append(const at::Tensor& logits, uint64_t place) {
    for (size_t i = 0; i < rows_.size(); ++i) {
      Row& row = rows_[i];
      if (row.done) continue;
      const absl::Span<float> scores = ScoresOf(logits, i);
      Process(row, scores);
      const SamplingOptions& sampling = options_.sampling;
      row.tokens.push_back(ChooseToken(scores, sampling, TokenUniform(sampling.seed, row.sample, place)));
      row.done = ends_.IsEnd(NewTokens(row));
      const bool is_last = static_cast<int64_t>(place) + 1 == options_.max_new_tokens;
      ends_.Stream(row.sample, NewTokens(row), row.done || is_last);
    }
  }

  void AdvanceBeams(const at::Tensor& logits, DecoderCache* cache) {
    const auto beams = static_cast<size_t>(options_.beams.num_beams);
    std::vector<int64_t> from(rows_.size());
    std::iota(from.begin(), from.end(), 0);
    for (size_t i = 0; i < searches_.size(); ++i) {
      const size_t first = i * beams;
      if (searches_[i].is_done()) continue;
      for (size_t row = first; row < first + beams; ++row) {
        LogSoftmax(ScoresOf(logits, row));
        Process(rows_[row], ScoresOf(logits, row));
      }
      const std::vector<int64_t> parents = searches_[i].Advance(
          ScoresOf(logits, first, beams), [this](absl::Span<const int64_t> tokens) { return ends_.IsEnd(tokens); });
      for (size_t beam = 0; beam < beams; ++beam) {
        Row& row = rows_[first + beam];
        from[first + beam] = static_cast<int64_t>(first) + parents[beam];
        row.tokens = prompts_[row.sample];
        const std::vector<int64_t>& tokens = searches_[i].open()[beam];
        row.tokens.insert(row.tokens.end(), tokens.begin(), tokens.end());
        row.done = searches_[i].is_done();
      }
    }
    if (cache != nullptr) cache->Reorder(from);
  }

  const TokenLists& prompts_;
  const GenerateOptions& options_;
  CausalDecoder& decoder_;
  State& state_;
  Communicator& data_ranks_;
  TextEnds ends_;
  ModelSharding* gathered_ = nullptr;  // not null: all ranks gather parameters for each pass
  std::vector<Row> rows_;              // of the batch
  std::vector<BeamSearch> searches_;   // of the batch's prompts, if there are beams
  TokenLists results_;
};

// Returns the lists of all ranks, which are runs of `prompts` lists, on every rank.
TokenLists AllRanks(const TokenLists& own, size_t prompts, int64_t width, Communicator& data_ranks) {
  const int ranks = data_ranks.world_size();
  if (ranks == 1) return own;
  const auto most = static_cast<int64_t>(ShareOf(prompts, 0, ranks).most);
  const at::Tensor mine = at::full({most, width + 1}, -1, at::kLong);
  for (size_t i = 0; i < own.size(); ++i)
    std::copy(own[i].begin(), own[i].end(), mine.mutable_data_ptr<int64_t>() + static_cast<int64_t>(i) * (width + 1));
  const at::Tensor sent = mine.to(data_ranks.device());
  const at::Tensor gathered = at::empty({ranks, most, width + 1}, sent.options());
  data_ranks.StartAllGather(gathered, sent)->Wait();
  const at::Tensor all = gathered.cpu();
  TokenLists lists;
  for (int rank = 0; rank < ranks; ++rank) {
    const PromptShare share = ShareOf(prompts, rank, ranks);
    for (size_t i = share.begin; i < share.end; ++i) {
      const at::Tensor row = all[rank][static_cast<int64_t>(i - share.begin)];
      const int64_t* begin = row.mutable_data_ptr<int64_t>();
      lists.emplace_back(begin, std::find(begin, begin + width, -1));
    }
  }
  return lists;
}

CausalDecoder& DecoderOrThrow(Model& model) {
  const absl::StatusOr<CausalDecoder*> decoder = DecoderOf(model);
  ThrowIfError(decoder.status());
  return **decoder;
}

// End-of-text tokens are left out.
std::vector<std::string> TextsOf(TokenLists lists, const GenerateOptions& options, const State& state,
                                 const CausalDecoder& decoder) {
  std::vector<std::string> texts;
  for (std::vector<int64_t>& tokens : lists) {
    const auto& eos = options.eos_token_id;
    if (!tokens.empty() && std::find(eos.begin(), eos.end(), tokens.back()) != eos.end()) tokens.pop_back();
    texts.push_back(TextOfTokens(tokens, state, decoder));
  }
  return texts;
}

}  // namespace

TokenLists EncodedPrompts(const std::vector<std::string>& prompts, const CausalDecoder& decoder,
                          const Tokenizer* tokenizer) {
  TokenLists tokens;
  for (const std::string& prompt : prompts)
    tokens.push_back(tokenizer == nullptr ? decoder.Encode(prompt)
                                          : tokenizer->Encode(prompt, /*add_special_tokens=*/false).ids);
  return tokens;
}

TokenLists GenerateTokens(const TokenLists& prompts, const GenerateOptions& options, State& state,
                          Communicator& data_ranks) {
  CausalDecoder& decoder = DecoderOrThrow(*state.model);
  ThrowIfError(Validate(options, prompts, decoder));
  if (prompts.empty()) return {};
  const bool streams = options.on_text != nullptr;
  const PromptShare share =
      streams ? ShareOf(prompts.size(), 0, 1) : ShareOf(prompts.size(), data_ranks.rank(), data_ranks.world_size());
  const InferenceWeightsScope weights(state.algorithms);
  TokenLists own = Generation(prompts, options, decoder, state, data_ranks).Run(share);
  if (streams) return own;
  return AllRanks(own, prompts.size(), options.max_new_tokens, data_ranks);
}

std::vector<std::string> GenerateTexts(const std::vector<std::string>& prompts, const GenerateOptions& options,
                                       State& state, Communicator& data_ranks) {
  const CausalDecoder& decoder = DecoderOrThrow(*state.model);
  return TextsOf(GenerateTokens(EncodedPrompts(prompts, decoder, state.tokenizer.get()), options, state, data_ranks),
                 options, state, decoder);
}

std::vector<std::string> GenerateOwnTexts(const TokenLists& prompts, const GenerateOptions& options, State& state,
                                          Communicator& data_ranks) {
  CausalDecoder& decoder = DecoderOrThrow(*state.model);
  ThrowIfError(Validate(options, prompts, decoder));
  const PromptShare own = {0, prompts.size(), std::max<size_t>(prompts.size(), 1)};  // a rank without any passes, too
  return TextsOf(Generation(prompts, options, decoder, state, data_ranks).Run(own), options, state, decoder);
}

bool GenerateIsDue(const GenerateCallback& callback, Event event, const State& state) {
  if (callback.last_batch == state.timestamp.batch) return false;
  if (event == Event::kFitEnd) return true;
  const Time interval = CountedInterval(callback.interval, state.max_duration, state.clock.batches_per_epoch);
  const Event when = interval.unit() == TimeUnit::kEpoch       ? Event::kEpochCheckpoint
                     : interval.unit() == TimeUnit::kIteration ? Event::kIterationCheckpoint
                                                               : Event::kBatchCheckpoint;
  return event == when && IntervalCrossed(interval, state.clock.previous_timestamp, state.timestamp);
}

void RunGenerate(GenerateCallback& callback, State& state, Communicator& data_ranks, Logger& logger) {
  callback.last_batch = state.timestamp.batch;
  const std::vector<std::string> texts = GenerateTexts(callback.prompts, callback.options, state, data_ranks);
  const std::vector<std::string> columns = {"prompt", "generation"};
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < texts.size(); ++i) rows.push_back({callback.prompts[i], texts[i]});
  logger.LogTable({state.timestamp, "generations", columns, rows});
}

}  // namespace composer
