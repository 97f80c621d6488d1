#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <tuple>

namespace flashinfer {
namespace trtllm_allreduce {

constexpr size_t MAX_RANKS_PER_NODE = 16;

namespace details {
static constexpr int kWarpSize = 32;
static constexpr int kClusterMaxSize = 8;
}  // namespace details

// Collects a message and throws it.
struct Refusal {
  std::string text;
  template <typename T>
  Refusal& operator<<(T const& part) {
    if constexpr (std::is_arithmetic_v<T>) {
      text += std::to_string(part);
    } else {
      text += part;
    }
    return *this;
  }
  ~Refusal() noexcept(false) { throw std::runtime_error(text); }
};

struct FusionParams {
  void* lamport_peer_comm_buffer_ptrs[MAX_RANKS_PER_NODE * 3];
};

template <typename T>
struct AllReduceParams {
  T* data;
  int64_t ranks_per_node;
  int warps;
  FusionParams fusion_params;
};

template <int ClusterSize, typename T, int RanksPerNode, bool Bias, bool Affine>
__global__ void lamport_style_one_shot_all_reduce_norm_kernel(AllReduceParams<T> params) {
#if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200))
  cudaGridDependencySynchronize();
  T sum = 0;
  for (int rank = 0; rank < RanksPerNode; ++rank) {
    sum += static_cast<T*>(params.fusion_params.lamport_peer_comm_buffer_ptrs[rank])[threadIdx.x];
  }
  params.data[threadIdx.x] = sum / ClusterSize;
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

template <typename T>
__global__ void copy_kernel(T const* in, T* out) {
#if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200))
  cudaGridDependencySynchronize();
#endif
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i];
#if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200))
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

template <typename T>
__global__ void scale_kernel(T const* in, T* out) {
#if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200))
  cudaGridDependencySynchronize();
#endif
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i] * 2;
#if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200))
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

template <typename T>
__global__ void shift_kernel(T const* in, T* out) {
#if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200))
  cudaGridDependencySynchronize();
#endif
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i] + 1;
#if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200))
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

template <typename T>
__global__ void square_kernel(T const* in, T* out) {
#if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200))
  cudaGridDependencySynchronize();
#endif
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i] * in[i];
#if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200))
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

template <typename T>
__global__ void halve_kernel(T const* in, T* out) {
#if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200))
  cudaGridDependencySynchronize();
#endif
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i] / 2;
#if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200))
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

template <typename T>
__global__ void negate_kernel(T const* in, T* out) {
#if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200))
  cudaGridDependencySynchronize();
#endif
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = -in[i];
#if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200))
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

template <typename T, int RanksPerNode, bool Bias, bool Affine>
cudaError_t lamport_style_one_shot_all_reduce_norm_kernel_launcher(AllReduceParams<T> params,
                                                                   cudaStream_t stream) {
  int warps_per_token = params.warps;
  int warp_min_number = 4;
  int cluster_size = std::min(((warps_per_token + warp_min_number - 1) / warp_min_number),
                              details::kClusterMaxSize);
  cudaLaunchConfig_t config = {0};
  config.gridDim = cluster_size;
  config.blockDim = warps_per_token / cluster_size * details::kWarpSize;
  config.stream = stream;
  return cudaLaunchKernelEx(
      &config,
      lamport_style_one_shot_all_reduce_norm_kernel<details::kClusterMaxSize, T, RanksPerNode, Bias,
                                                    Affine>,
      params);
}

}  // namespace trtllm_allreduce
}  // namespace flashinfer
