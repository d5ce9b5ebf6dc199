// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/torch_status.h"

#include <c10/util/Exception.h>

#include <new>
#include <system_error>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace composer {
namespace {
constexpr char kOutOfMemoryMark[] = "composer/out_of_memory";
}  // namespace

absl::Status OutOfMemoryStatus(absl::string_view message) {
  absl::Status status = absl::ResourceExhaustedError(message);
  status.SetPayload(kOutOfMemoryMark, absl::Cord());
  return status;
}

bool IsOutOfMemory(const absl::Status& status) { return status.GetPayload(kOutOfMemoryMark).has_value(); }

// Derived exception classes must come before their bases.
absl::Status StatusFromCurrentException() {
  try {
    throw;
  } catch (const StatusError& error) {
    return error.status();
  } catch (const c10::OutOfMemoryError& error) {
    return OutOfMemoryStatus(error.what_without_backtrace());
  } catch (const c10::DistError& error) {
    return absl::UnavailableError(error.what_without_backtrace());
  } catch (const c10::NotImplementedError& error) {
    return absl::UnimplementedError(error.what_without_backtrace());
  } catch (const c10::ValueError& error) {
    return absl::InvalidArgumentError(error.what_without_backtrace());
  } catch (const c10::TypeError& error) {
    return absl::InvalidArgumentError(error.what_without_backtrace());
  } catch (const c10::IndexError& error) {
    return absl::OutOfRangeError(error.what_without_backtrace());
  } catch (const c10::Error& error) {
    return absl::InternalError(error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return OutOfMemoryStatus("out of host memory");
  } catch (const std::system_error& error) {
    // std::thread throws EAGAIN when there is no memory for a stack or the limit on threads is reached.
    if (error.code() == std::errc::resource_unavailable_try_again)
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot start a thread, out of memory or of threads (ulimit -u, "
                       "the cgroup's pids.max): ",
                       error.what()));
    return absl::InternalError(error.what());
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  } catch (...) {
    return absl::UnknownError("an exception of unknown type");
  }
}

}  // namespace composer
