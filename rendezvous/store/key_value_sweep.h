// Lets a launcher forget keys that are gone. Another launcher's workers may delete what its own workers have set (rank
// 0 reads and deletes the parts of a checkpoint's manifest), and no message reports that. Without the sweep the
// launcher would keep all of them and restore them after a restart of the rendezvous. SPDX-License-Identifier:
// Apache-2.0
#pragma once

#include <memory>

#include "proto/rendezvous.grpc.pb.h"
#include "rendezvous/store/key_value_upstream.h"

namespace composer {

// Returns at once. Each time that the remembered keys have doubled in size, it asks the store which of them are absent
// and forgets those. A call that fails is harmless: the next one asks again.
void ForgetDeletedKeys(const std::shared_ptr<KeyValueUpstream>& upstream, const proto::Caller& caller);

}  // namespace composer
