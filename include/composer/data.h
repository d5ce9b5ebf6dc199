// Batches, datasets, and the data sets that come with Composer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/core/batch.h"
#include "trainer/core/dataset.h"
#include "trainer/data/collators.h"
#include "trainer/data/fashion_mnist.h"
#include "trainer/data/finetuning_source.h"
#include "trainer/data/first_fit_source.h"
#include "trainer/data/length_buckets.h"
#include "trainer/data/mix_source.h"
#include "trainer/data/packed_source.h"
#include "trainer/data/prepared_dataset.h"
#include "trainer/data/sample_order.h"
#include "trainer/data/streaming_source.h"
#include "trainer/data/synthetic.h"
#include "trainer/data/tensor_dataset.h"
#include "trainer/data/text_bytes.h"
#include "trainer/data/text_sources.h"
#include "trainer/data/token_files.h"
#include "trainer/data/transforms.h"
