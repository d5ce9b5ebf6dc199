# In the tsan preset every program links tests/support/tsan/abseil.cc, to which the linker sends our calls of absl::Mutex
# and absl::Notification: Debian's Abseil is not instrumented.
if(CMAKE_CXX_FLAGS MATCHES "fsanitize=thread")
  add_library(composer_tsan_abseil STATIC ${CMAKE_SOURCE_DIR}/tests/support/tsan/abseil.cc)
  foreach(symbol
      ZN4absl7debian35Mutex4LockEv ZN4absl7debian35Mutex6UnlockEv
      ZN4absl7debian35Mutex8LockWhenERKNS0_9ConditionE
      ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE
      ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE
      ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE
      ZN4absl7debian312Notification6NotifyEv ZNK4absl7debian312Notification19WaitForNotificationEv
      ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE)
    add_link_options(-Wl,--wrap=_${symbol})
  endforeach()
  target_link_libraries(composer_flags INTERFACE composer_tsan_abseil)
endif()
