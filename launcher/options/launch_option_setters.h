// Setters of the forms that only launchers know; those of every program are in base/options.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/options.h"
#include "launcher/options/launch_options.h"

namespace composer {

// A number of workers, or auto, cpu, gpu.
OptionSetter IntoWorkers(std::string* target);
// "0,2".
OptionSetter IntoLocalRanks(std::vector<int>* target);
// "key=value,key=value".
OptionSetter IntoConf(std::map<std::string, std::string>* target);
// N or MIN:MAX.
OptionSetter IntoNodes(int* min, int* max);
// From 0 to 30 days.
OptionSetter IntoSeconds(double* target);
// contract/startup_limits.h's text.
OptionSetter IntoStartupLimits(std::string* target);
OptionSetter IntoStreams(StreamChoice* target);
// A name of printable characters.
OptionSetter IntoNodeGroup(std::string* target);

}  // namespace composer
