// What a launcher remembers of keys that are gone: another launcher's workers may delete what its own have set (the
// parts of a checkpoint's manifest, which rank 0 reads and deletes), and nobody tells it. Without this it would keep
// them all, and bring them back after a restart of the rendezvous.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "proto/rendezvous.grpc.pb.h"
#include "rendezvous/store/key_value_upstream.h"

namespace composer {

// Returns at once. When enough has come together since the last time, the store is asked which of the remembered keys
// are still there, and the others are forgotten: one call each time that the memory has doubled. An answer that does
// not come is no harm.
void ForgetDeletedKeys(const std::shared_ptr<KeyValueUpstream>& upstream, const proto::Caller& caller);

}  // namespace composer
