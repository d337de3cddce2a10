// Ops that move or describe memory without computing: factories, views, resizes and copies. They compile nothing.
#include "device.h"
#include "events.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/op_registration/adaption.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_copy_from_native.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/_to_copy_ops.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/empty_strided_ops.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

namespace neuron {
namespace {

using c10::IntArrayRef;

struct OnDevice { // boxed and unboxed kernels of a private backend get no device guard from the dispatcher
  explicit OnDevice(c10::Device device) : guard_(kDevice), previous_(guard_.getDevice()) {
    if (device.has_index())
      guard_.setDevice(device);
  }
  ~OnDevice() {
    guard_.uncheckedSetDevice(previous_);
  }
  c10::impl::VirtualGuardImpl guard_;
  c10::Device previous_;
};

c10::Device device_or_current(std::optional<c10::Device> device) {
  return device.value_or(c10::Device(kDevice, current_core()));
}

void check_dense(std::optional<at::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK(!layout || *layout == at::kStrided, "neuron tensors are strided; layout ", *layout, " is not supported on this device: build it on the CPU");
  TORCH_CHECK(!pin_memory.value_or(false), "only dense CPU tensors can be pinned, not neuron tensors");
}

// Under torch.use_deterministic_algorithms PyTorch fills what a program has not written yet: with NaN, or the largest number.
bool fills_empty() {
  return at::globalContext().deterministicAlgorithms() && at::globalContext().deterministicFillUninitializedMemory();
}

at::Tensor filled(at::Tensor made) {
  if (made.numel() && fills_empty()) {
    at::Tensor host = host_alias(made);
    at::native::fill_empty_deterministic_(host);
  }
  return made;
}

at::Tensor empty(
    IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout, std::optional<c10::Device> device,
    std::optional<bool> pin_memory, std::optional<at::MemoryFormat> format) {
  check_dense(layout, pin_memory);
  OnDevice guard(device_or_current(device));
  return filled(at::Tensor(at::detail::empty_generic(
      size, allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype.value_or(c10::get_default_dtype_as_scalartype()), format)));
}

at::Tensor empty_strided(
    IntArrayRef size, IntArrayRef stride, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
    std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  check_dense(layout, pin_memory);
  OnDevice guard(device_or_current(device));
  return filled(at::Tensor(at::detail::empty_strided_generic(
      size, stride, allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype.value_or(c10::get_default_dtype_as_scalartype()))));
}

// A symbolic zero of forward-mode AD: sizes, but no memory behind them. Its dispatch key materialises it before a kernel.
struct NoMemory final : c10::Allocator {
  explicit NoMemory(c10::Device device) : device_(device) {}
  at::DataPtr allocate(size_t) override {
    return {nullptr, nullptr, [](void*) {}, device_};
  }
  void copy_data(void*, const void*, std::size_t) const override {}
  c10::Device device_;
};

at::Tensor efficient_zero(
    IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout, std::optional<c10::Device> device,
    std::optional<bool> pin_memory) {
  check_dense(layout, pin_memory);
  c10::Device where = device_or_current(device);
  if (!where.has_index())
    where = c10::Device(kDevice, current_core());
  NoMemory none(where);
  return at::Tensor(at::detail::empty_generic(
      size, &none, c10::DispatchKeySet({c10::DispatchKey::PrivateUse1, c10::DispatchKey::ZeroTensor}),
      dtype.value_or(c10::get_default_dtype_as_scalartype()), std::nullopt));
}

// As on the CPU, a geometry that reaches past the storage makes it larger.
void grow_storage(const at::Tensor& self) {
  if (self.numel() == 0)
    return;
  const size_t needed = at::detail::computeStorageNbytes(self.sizes(), self.strides(), self.element_size(), self.storage_offset());
  if (needed > self.storage().nbytes())
    at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(self.storage(), needed);
}

// What a storage has gained after its first `before` bytes.
void fill_from(const at::Tensor& self, size_t before) {
  const auto size = self.element_size();
  char* data = static_cast<char*>(self.storage().mutable_data()) + before / size * size;
  const int64_t count = int64_t((self.storage().nbytes() - before / size * size) / size);
  at::Tensor host = host_tensor(data, size_t(count) * size, {count}, {1}, self.scalar_type());
  at::native::fill_empty_deterministic_(host);
}

const at::Tensor& resize(const at::Tensor& self, IntArrayRef size, std::optional<at::MemoryFormat> format) {
  OnDevice guard(self.device());
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(size);
  if (format && *format != at::MemoryFormat::Preserve)
    impl->empty_tensor_restride(*format);
  const size_t before = self.storage().nbytes();
  grow_storage(self);
  if (self.storage().nbytes() > before && fills_empty())
    fill_from(self, before);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, int64_t offset, IntArrayRef size, IntArrayRef stride) {
  OnDevice guard(self.device());
  at::native::checkSetStorage(self, source, offset, size, stride);
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(offset);
  if (stride.data() && stride.size() == size.size())
    impl->set_sizes_and_strides(size, stride);
  else
    impl->set_sizes_contiguous(size);
  grow_storage(self);
  return self;
}

at::Tensor& set_whole_storage(at::Tensor& self, at::Storage source) {
  const int64_t count = int64_t(source.nbytes() / self.dtype().itemsize());
  return set_storage(self, std::move(source), 0, {count}, {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  return set_storage(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_empty(at::Tensor& self) {
  OnDevice guard(self.device());
  c10::Storage none(c10::Storage::use_byte_size_t(), 0, allocator()->allocate(0), allocator(), true);
  return set_storage(self, std::move(none), 0, {0}, {});
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool) {
  // A change of dtype on the device is computing, not moving: it goes down the compiled road.
  if (on_device(self) && on_device(dst) && self.dtype() != dst.dtype() && dst.numel() != 0) {
    at::Tensor cast = at::_ops::_to_copy::call(
        self, dst.scalar_type(), std::nullopt, std::nullopt, std::nullopt, false, std::nullopt);
    transfer(cast, dst);
  } else {
    transfer(self, dst);
  }
  return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  if (dst.sizes() != self.sizes())
    at::native::resize_output(dst, self.sizes());
  return copy_from(self, dst, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  count_sync();
  const int64_t start = recording() ? now_ns() : 0;
  at::Scalar value = at::native::_local_scalar_dense_cpu(host_alias(self));
  if (start)
    push(CopyEvent{Direction::d2h, int8_t(self.get_device()), start, now_ns(), int64_t(self.element_size())});
  return value;
}

void record_stream(at::Tensor&, at::Stream) {} // execution is synchronous: memory is never in use after a call returns

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("_efficientzerotensor", &efficient_zero);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", &at::native::view);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("unfold", &at::native::unfold);
  m.impl("view_as_real", &at::native::view_as_real);
  m.impl("view_as_complex", &at::native::view_as_complex);
  m.impl("resize_", &resize);
  m.impl("set_.source_Storage", &set_whole_storage);
  m.impl("set_.source_Storage_storage_offset", &set_storage);
  m.impl("set_.source_Tensor", &set_tensor);
  m.impl("set_", &set_empty);
  m.impl("is_set_to", &at::native::is_set_to);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &local_scalar_dense);
  m.impl("record_stream", &record_stream);
}

// The fallbacks of these keys resolve a conj or neg bit by clone -> copy_ -> _copy_from, without end: the copy below
// handles the bits itself.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

} // namespace

void transfer(const at::Tensor& src, const at::Tensor& dst) {
  const bool from = on_device(src), to = on_device(dst);
  const Direction direction = from && to ? Direction::d2d : to ? Direction::h2d : Direction::d2h;
  if (direction == Direction::d2h)
    count_sync();
  const bool timed = recording();
  const int64_t start = timed ? now_ns() : 0;
  at::Tensor target = to ? host_alias(dst) : dst, source = from ? host_alias(src) : src;
  if (from && to && src.is_alias_of(dst)) // so that the CPU's check for overlap sees one storage
    source.unsafeGetTensorImpl()->set_storage_keep_dtype(target.storage());
  at::_ops::copy_::call(target, source, false);
  if (timed)
    push(CopyEvent{direction, int8_t(to ? dst.get_device() : src.get_device()), start, now_ns(), int64_t(dst.nbytes())});
}

} // namespace neuron
