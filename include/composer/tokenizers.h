// Tokenizers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/core/tokenizer.h"
#include "trainer/tokenizers/byte_tokenizer.h"
#include "trainer/tokenizers/file_tokenizer.h"
