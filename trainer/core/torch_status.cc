// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/torch_status.h"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <cmath>
#include <new>
#include <system_error>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace composer {
namespace {
constexpr char kOutOfMemoryMark[] = "composer/out_of_memory";

// LibTorch has no type of exception for memory of the host.
bool IsHostAllocation(absl::string_view said) {
  return absl::StrContains(said, "DefaultCPUAllocator: ") && absl::StrContains(said, "you tried to allocate ");
}

std::string DescribeHostAllocation(absl::string_view said) {
  constexpr absl::string_view kBefore = "you tried to allocate ";
  const absl::string_view rest = said.substr(said.find(kBefore) + kBefore.size());
  double bytes = 0;
  if (!absl::SimpleAtod(rest.substr(0, rest.find(' ')), &bytes)) return std::string(said);
  const double gib = std::ldexp(bytes, -30),
               had = std::ldexp(
                   static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)), -30);
  std::string text =
      absl::StrFormat("out of memory: %.3g GiB were asked for at once, and this machine has %.3g GiB", gib, had);
  if (gib > had)
    absl::StrAppend(&text,
                    ": use a smaller model or batch, or shard it over ranks (parallelism_config.fsdp); `composer plan` "
                    "says what a run needs");
  return text;
}

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
    const std::string said = error.what_without_backtrace();
    return IsHostAllocation(said) ? OutOfMemoryStatus(DescribeHostAllocation(said)) : absl::InternalError(said);
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
