// A mock accelerator that poses as CUDA, without a GPU and without libtorch_cuda.so: LibTorch's device type, dispatch
// key, guard, allocators and generators are its own, and its kernels are the CPU's. So the product's GPU code runs
// unchanged. What a program must wait for is checked (see machine.h and races.h), in every run alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace composer::mock {

// Must be called before anything asks LibTorch for CUDA, in a program that does not load libtorch_cuda.so.
void Install();

// Makes the references of our own operators (trainer/kernels/operators.h) kernels of the mock, as the CUDA module makes
// ours: then models call them. At most once; after Install.
void RegisterOwnOperators();

// Parts of Install.
void InstallGuard();
void InstallHostSide();

}  // namespace composer::mock
