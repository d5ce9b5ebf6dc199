// Loggers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/core/logger.h"
#include "trainer/loggers/console_logger.h"
#include "trainer/loggers/file_logger.h"
#include "trainer/loggers/in_memory.h"
#include "trainer/loggers/json_lines.h"
#include "trainer/loggers/progress_bar.h"
#include "trainer/loggers/remote_uploader.h"
#include "trainer/loggers/table_lines.h"
#include "trainer/loggers/tensorboard_logger.h"
#include "trainer/loggers/tracker_logger.h"
