// Sources of tables by name: Parquet and Arrow files, and chats that may be in such. job_data.cc puts them with the
// others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "job/data/image_rows.h"
#include "trainer/data/tables/table_source.h"

namespace composer {

std::vector<SourceRow> TableSourceRows();

// Reads the keys that say how files in stores are fetched.
FetchOptions ReadFetchOptions(ConfigMap& config);

}  // namespace composer
