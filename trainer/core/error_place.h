// These functions say where an error of a model, a dataset or a plugin happened: module, step, samples and native stack
// are appended to its message. Nothing is recorded while all goes well.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/Exception.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "trainer/core/state.h"

namespace composer {

// Records that an exception is leaving the module's forward. Of nested modules the first, the innermost, is kept; one
// per thread.
void NoteFailingModule(const torch::nn::Module& module);
// Returns the recorded module and forgets it. Null means that none was recorded.
const torch::nn::Module* TakeFailingModule();

// Must be called in a catch block. Throws a StatusError with the code and message of what was caught, plus the place:
//   \n  in model.blocks.3.attn, forward of batch 13 (epoch 1), samples 3, 17, 20, … (8)\n  at gpt::Attention::forward …
// `where` is "forward of batch 13 (epoch 1)". What carries a Status already (collectives, callbacks, our own checks),
// out of memory and lost peers are rethrown as is.
[[noreturn]] void RethrowWithPlace(const State& state, absl::string_view where);

// Returns "samples 3, 17, 20, … (8)": the first eight ids and the number of all.
std::string SamplesText(absl::Span<const int64_t> ids);

// Returns the functions that the error passed through, innermost first, at most 16, one per line: "\n  at NAME
// (LIBRARY)". There are no addresses, so the same error gives the same text. Returns "" if the error has no backtrace.
std::string StackText(const c10::Error& error);
// Same as StackText, from the text of a c10 backtrace.
std::string FramesOf(absl::string_view backtrace);

}  // namespace composer
