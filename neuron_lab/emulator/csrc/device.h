// What the shim's parts share: the device's memory blocks, its accounting and the host aliases of device tensors.
#pragma once

#include <Python.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/SmallVector.h>
#include <c10/util/strides.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace neuron {

constexpr c10::DeviceType kDevice = c10::DeviceType::PrivateUse1;
constexpr size_t kAlignment = 64; // XLA imports host memory without copying only at 64-byte alignment.

using Shape = c10::SmallVector<int64_t, 5>;

// Nanoseconds that every reading of the clock takes, 0 for the real clock: tests want the same times in every run.
inline std::atomic<int64_t> clock_step{0}, stepped_ns{0};

// Nanoseconds on the clock of Python's time.perf_counter_ns (CLOCK_MONOTONIC on Linux).
inline int64_t now_ns() {
  if (const int64_t step = clock_step.load(std::memory_order_relaxed))
    return stepped_ns += step;
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

// A non-owning XLA array over a block's memory. It must not own: storage -> Block -> array -> storage would leak.
struct Import {
  c10::ScalarType dtype;
  size_t offset; // bytes
  std::vector<int64_t> shape;
  PyObject* array; // strong reference, released with the block, GIL held
};

// The context behind every device DataPtr. Exactly one of the owners is set, or neither when `data` came from the
// allocator below.
struct Block {
  void* data = nullptr;
  size_t nbytes = 0;
  c10::DeviceIndex core = 0;
  PyObject* array_owner = nullptr; // an executable's result: the XLA array owns the memory. Strong, GIL to release.
  at::DataPtr host_owner; // memory taken over from a CPU result
  std::vector<Import> imports; // read and written with the GIL held
  Block *older = nullptr, *newer = nullptr; // history.cpp's list of the living
  std::shared_ptr<c10::GatheredContext> frames; // where it was taken, while that is recorded
};

struct CoreStats {
  std::atomic<int64_t> current{0}, peak{0}, allocated{0}, freed{0};
  std::atomic<int64_t> alloc_count{0}, free_count{0}, live_blocks{0}, peak_blocks{0}, ooms{0};
};

constexpr int kMaxCores = 128; // DeviceIndex is int8
CoreStats& core_stats(c10::DeviceIndex core);

// The time in which a core ran executables, counted while somebody wants to know. GIL held.
struct Busy {
  int64_t total_ns = 0, since_ns = 0; // `since_ns`: when the first of those that run now began
  int running = 0;
};
extern bool g_count_busy;
Busy& busy_of(c10::DeviceIndex core);
int64_t busy_ns(c10::DeviceIndex core); // with what runs now

// An executable runs on the core.
class Running {
 public:
  explicit Running(c10::DeviceIndex core) : busy_(g_count_busy ? &busy_of(core) : nullptr) {
    if (busy_ && busy_->running++ == 0)
      busy_->since_ns = now_ns();
  }
  ~Running() {
    if (busy_ && --busy_->running == 0)
      busy_->total_ns += now_ns() - busy_->since_ns;
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  Busy* busy_;
};

int64_t hbm_limit();
void set_hbm_limit(int64_t bytes);
c10::DeviceIndex core_count();
void set_core_count(c10::DeviceIndex count);
c10::DeviceIndex current_core();
void set_current_core(c10::DeviceIndex core); // raises on a bad index
void reset_accumulated(c10::DeviceIndex core);
void reset_peak(c10::DeviceIndex core);

// In a forked child of a process that used the device, every later use raises.
void forbid_after_fork();
void check_not_forked();

// Executables take and give back blocks of many megabytes at each call. By default glibc asks the kernel for such a block each time,
// which clears its pages one by one: a quarter of a convolutional network's time. So the process keeps what was freed, up to 1 GiB
// at the end of its heap, until it is told to give it back.
void keep_freed_pages();
void give_back_freed_pages();

// Count `nbytes` on `core`; raises torch.OutOfMemoryError past the limit. `release` undoes it.
void charge(c10::DeviceIndex core, int64_t nbytes);
void release(c10::DeviceIndex core, int64_t nbytes);

// Raise before an executable runs when its results would not fit.
void check_room(c10::DeviceIndex core, int64_t nbytes);

c10::Allocator* allocator();
// A device DataPtr over memory that something else owns; charges the core.
at::DataPtr adopt(std::unique_ptr<Block> block);
at::Tensor tensor_over(at::DataPtr data, size_t nbytes, c10::ScalarType dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides);
// nullptr for empty storages, and for memory that came in from outside (DLPack, from_blob).
Block* block_of(const at::TensorBase& tensor);

at::Tensor empty_strided_on(c10::DeviceIndex core, c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype);

// A CPU tensor over memory that the caller keeps, without autograd's keys.
at::Tensor host_tensor(void* data, size_t nbytes, c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype);

// Raise when the storage, which the program may have resized, does not hold all elements.
void check_memory(const at::TensorBase& tensor);

// A CPU tensor over the same memory, with the conj and neg bits of `tensor`. Does not keep the storage alive.
at::Tensor host_alias(const at::Tensor& tensor);

inline bool on_device(const at::TensorBase& tensor) {
  return tensor.defined() && tensor.device().type() == kDevice;
}

// Raise NotImplementedError: `op` was given or would give a tensor that is not dense.
[[noreturn]] void refuse_layout(const std::string& op);

// The CPU generator behind a device generator.
at::Generator host_generator(const at::Generator& generator);

// Copies, counted as host<->device or device<->device transfers.
enum class Direction : int8_t { h2d, d2h, d2d };
void transfer(const at::Tensor& src, const at::Tensor& dst);

} // namespace neuron
