// HBM accounting, the device allocator and the tensors built over its memory.
#include "device.h"
#include "events.h"
#include "history.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>

#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace neuron {
namespace {

CoreStats g_stats[kMaxCores];
std::atomic<int64_t> g_limit{24LL << 30};
constexpr int kKeptBytes = 1 << 30;

void raise_peak(std::atomic<int64_t>& peak, int64_t value) {
  int64_t seen = peak.load();
  while (value > seen && !peak.compare_exchange_weak(seen, value)) {
  }
}

std::string gib(int64_t bytes) {
  char text[32];
  snprintf(text, sizeof text, "%.2f GiB", double(bytes) / double(1LL << 30));
  return text;
}

void drop_references(Block& block) {
  if (!block.array_owner && block.imports.empty())
    return;
  // Tensors outlive the interpreter at exit; their arrays then go with the process.
  if (!Py_IsInitialized())
    return;
  PyGILState_STATE gil = PyGILState_Ensure();
  for (Import& import : block.imports)
    Py_DECREF(import.array);
  block.imports.clear();
  Py_XDECREF(block.array_owner);
  PyGILState_Release(gil);
}

void report(const Block& block, int64_t change) {
  const auto used = size_t(core_stats(block.core).current.load());
  c10::reportMemoryUsageToProfiler(block.data, change, used, used, c10::Device(kDevice, block.core));
}

void begin_life(Block& block) {
  remember(block);
  record_taken(block);
  report(block, int64_t(block.nbytes));
}

void delete_block(void* context) {
  std::unique_ptr<Block> block(static_cast<Block*>(context));
  forget(*block);
  drop_references(*block);
  if (!block->array_owner && !block->host_owner)
    std::free(block->data);
  release(block->core, int64_t(block->nbytes));
  record_given_back(*block);
  report(*block, -int64_t(block->nbytes));
}

struct HbmAllocator final : c10::DeviceAllocator {
  at::DataPtr allocate(size_t nbytes) override {
    const c10::DeviceIndex core = current_core();
    const c10::Device device(kDevice, core);
    if (nbytes == 0)
      return {nullptr, nullptr, &delete_block, device};
    charge(core, int64_t(nbytes));
    auto block = std::make_unique<Block>();
    const size_t padded = (nbytes + kAlignment - 1) / kAlignment * kAlignment;
    block->data = std::aligned_alloc(kAlignment, padded);
    if (!block->data) {
      release(core, int64_t(nbytes));
      TORCH_CHECK_WITH(OutOfMemoryError, false, "the emulator's host has no memory left for ", nbytes, " bytes of emulated HBM");
    }
    block->nbytes = nbytes;
    block->core = core;
    begin_life(*block);
    void* data = block->data;
    return {data, block.release(), &delete_block, device};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return nullptr; // the context is a Block, never the data pointer
  }
  void copy_data(void* dest, const void* src, std::size_t count) const override {
    default_copy_data(dest, src, count);
  }
  bool initialized() override {
    return true;
  }
  void emptyCache(c10::MempoolId_t) override {} // freed blocks go back at once: nothing is cached
  void recordStream(const at::DataPtr&, c10::Stream) override {} // execution is synchronous
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex core) override {
    CoreStats& s = core_stats(core);
    c10::CachingDeviceAllocator::DeviceStats out;
    auto fill = [](c10::CachingAllocator::Stat& stat, int64_t current, int64_t peak, int64_t allocated, int64_t freed) {
      stat.current = current;
      stat.peak = peak;
      stat.allocated = allocated;
      stat.freed = freed;
    };
    for (auto* stats : {&out.allocated_bytes, &out.reserved_bytes, &out.active_bytes, &out.requested_bytes})
      fill((*stats)[0], s.current, s.peak, s.allocated, s.freed);
    for (auto* stats : {&out.allocation, &out.active, &out.segment})
      fill((*stats)[0], s.live_blocks, s.peak_blocks, s.alloc_count, s.free_count);
    out.num_ooms = s.ooms;
    return out;
  }
  void resetAccumulatedStats(c10::DeviceIndex core) override {
    reset_accumulated(core);
  }
  void resetPeakStats(c10::DeviceIndex core) override {
    reset_peak(core);
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex core) override {
    const int64_t limit = hbm_limit();
    return {size_t(limit - core_stats(core).current), size_t(limit)};
  }
};

HbmAllocator g_allocator;

} // namespace

void keep_freed_pages() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, kKeptBytes);
#endif
}

void give_back_freed_pages() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

CoreStats& core_stats(c10::DeviceIndex core) {
  TORCH_CHECK(core >= 0 && core < kMaxCores, "invalid core ", int(core));
  return g_stats[core];
}

bool g_count_busy = false;

Busy& busy_of(c10::DeviceIndex core) {
  static Busy cores[kMaxCores];
  TORCH_CHECK(core >= 0 && core < kMaxCores, "invalid core ", int(core));
  return cores[core];
}

int64_t busy_ns(c10::DeviceIndex core) {
  const Busy& busy = busy_of(core);
  return busy.total_ns + (busy.running ? now_ns() - busy.since_ns : 0);
}

int64_t hbm_limit() {
  return g_limit;
}

void set_hbm_limit(int64_t bytes) {
  TORCH_CHECK(bytes > 0, "the HBM limit must be positive, got ", bytes, " bytes");
  g_limit = bytes;
}

void reset_accumulated(c10::DeviceIndex core) {
  CoreStats& s = core_stats(core);
  s.allocated = s.freed = s.alloc_count = s.free_count = s.ooms = 0;
}

void reset_peak(c10::DeviceIndex core) {
  CoreStats& s = core_stats(core);
  s.peak = s.current.load();
  s.peak_blocks = s.live_blocks.load();
}

namespace {
bool g_forked = false;
} // namespace

void forbid_after_fork() {
  g_forked = true;
}

void check_not_forked() {
  TORCH_CHECK(
      !g_forked, "Cannot re-initialize Neuron runtime in forked subprocess. To use Neuron with multiprocessing, use the 'spawn' start method");
}

void check_room(c10::DeviceIndex core, int64_t nbytes) {
  CoreStats& s = core_stats(core);
  const int64_t used = s.current, limit = g_limit;
  if (used + nbytes <= limit)
    return;
  s.ooms++;
  remember_oom(core, nbytes);
  record_oom(core, nbytes);
  c10::reportOutOfMemoryToProfiler(nbytes, size_t(used), size_t(used), c10::Device(kDevice, core));
  TORCH_CHECK_WITH(
      OutOfMemoryError, false, "NRT allocation failed for size ", nbytes, " (OOM): neuron:", int(core), " has ", gib(used), " (", used,
      " bytes) of its ", gib(limit), " HBM limit (", limit, " bytes) in use and ", nbytes, " more were asked for. Delete tensors that are no longer needed, "
      "or use a smaller batch. The HBM is emulated: it counts bytes and holds them in host memory.");
}

void charge(c10::DeviceIndex core, int64_t nbytes) {
  check_not_forked();
  check_room(core, nbytes);
  CoreStats& s = core_stats(core);
  raise_peak(s.peak, s.current += nbytes);
  raise_peak(s.peak_blocks, ++s.live_blocks);
  s.allocated += nbytes;
  s.alloc_count++;
}

void release(c10::DeviceIndex core, int64_t nbytes) {
  CoreStats& s = core_stats(core);
  s.current -= nbytes;
  s.live_blocks--;
  s.freed += nbytes;
  s.free_count++;
}

c10::Allocator* allocator() {
  return &g_allocator;
}

at::DataPtr adopt(std::unique_ptr<Block> block) {
  charge(block->core, int64_t(block->nbytes));
  begin_life(*block);
  const c10::Device device(kDevice, block->core);
  void* data = block->data;
  return {data, block.release(), &delete_block, device};
}

at::Tensor tensor_over(at::DataPtr data, size_t nbytes, c10::ScalarType dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  c10::Storage storage(c10::Storage::use_byte_size_t(), nbytes, std::move(data), allocator(), /*resizable=*/true);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return tensor;
}

Block* block_of(const at::TensorBase& tensor) {
  const at::DataPtr& data = tensor.storage().data_ptr();
  return data.get_deleter() == &delete_block ? static_cast<Block*>(data.get_context()) : nullptr;
}

at::Tensor empty_strided_on(c10::DeviceIndex core, c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype) {
  c10::impl::VirtualGuardImpl guard(kDevice);
  const c10::Device previous = guard.exchangeDevice(c10::Device(kDevice, core));
  at::Tensor out(at::detail::empty_strided_generic(
      sizes, strides, allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype));
  guard.uncheckedSetDevice(previous);
  return out;
}

at::Tensor host_tensor(void* data, size_t nbytes, c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype) {
  c10::Storage storage(
      c10::Storage::use_byte_size_t(), nbytes, at::DataPtr(data, c10::Device(c10::DeviceType::CPU)), nullptr, /*resizable=*/false);
  auto out = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(dtype));
  out.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return out;
}

void check_memory(const at::TensorBase& tensor) {
  if (tensor.numel() == 0)
    return;
  const c10::Storage& storage = tensor.storage();
  const size_t needed = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.element_size(), tensor.storage_offset());
  TORCH_CHECK(
      storage.data() && needed <= storage.nbytes(), "a neuron tensor of sizes ", tensor.sizes(), " has no memory: it needs ", needed,
      " bytes of its storage, which was resized to ", storage.nbytes(), ", or it is a symbolic zero");
}

at::Tensor host_alias(const at::Tensor& tensor) {
  check_memory(tensor);
  const c10::Storage& storage = tensor.storage();
  at::DataPtr data(storage.mutable_data(), c10::Device(c10::DeviceType::CPU));
  c10::Storage alias(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(data), c10::GetCPUAllocator(), /*resizable=*/true);
  auto out = at::detail::make_tensor<c10::TensorImpl>(std::move(alias), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  auto* impl = out.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  impl->_set_conj(tensor.is_conj());
  impl->_set_neg(tensor.is_neg());
  return out;
}

} // namespace neuron
