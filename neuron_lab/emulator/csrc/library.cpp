// What an executable leaves to the host's kernel library: large matrix products. XLA calls these by name, with the memory of its
// operands, on the thread that launched or on one of its own, without the GIL.
#include "device.h"

#include <ATen/record_function.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/mm_ops.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <xla/ffi/api/ffi.h>

#include <cfenv>

namespace neuron {
namespace {

namespace ffi = xla::ffi;

at::Tensor over(ffi::AnyBuffer buffer, at::ScalarType dtype) {
  const c10::IntArrayRef sizes(buffer.dimensions().begin(), buffer.dimensions().size());
  return host_tensor(buffer.untyped_data(), buffer.size_bytes(), sizes, c10::contiguous_strides(sizes), dtype);
}

// XLA has its threads take subnormal numbers for zero. The library's own threads do not: rows of one result would differ.
class UsualNumbers {
 public:
  UsualNumbers() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~UsualNumbers() {
    std::fesetenv(&before_);
  }
  UsualNumbers(const UsualNumbers&) = delete;
  UsualNumbers& operator=(const UsualNumbers&) = delete;

 private:
  std::fenv_t before_;
};

ffi::Error dot(ffi::AnyBuffer left, ffi::AnyBuffer right, ffi::Result<ffi::AnyBuffer> result, bool transpose_left, bool transpose_right) {
  // Whatever the caller has switched on (autocast, a dispatch mode in Python, a profiler) was for ops, not for this.
  c10::impl::ForceDispatchKeyGuard plain(c10::DispatchKeySet(), c10::autocast_dispatch_keyset);
  at::DisableRecordFunctionGuard unrecorded;
  const UsualNumbers usual;
  try {
    const at::ScalarType dtype = left.element_type() == ffi::DataType::F64 ? at::kDouble : at::kFloat;
    at::Tensor a = over(left, dtype), b = over(right, dtype), out = over(*result, dtype);
    a = transpose_left ? a.transpose(-1, -2) : a;
    b = transpose_right ? b.transpose(-1, -2) : b;
    if (a.dim() == 2)
      at::_ops::mm_out::call(a, b, out);
    else
      at::_ops::bmm_out::call(a, b, out);
    return ffi::Error::Success();
  } catch (const std::exception& error) {
    return ffi::Error::Internal(error.what());
  }
}

XLA_FFI_DEFINE_HANDLER(
    dot_handler, dot,
    ffi::Ffi::Bind()
        .Arg<ffi::AnyBuffer>()
        .Arg<ffi::AnyBuffer>()
        .Ret<ffi::AnyBuffer>()
        .Attr<bool>("transpose_left")
        .Attr<bool>("transpose_right"));

} // namespace

void* library_dot() {
  return reinterpret_cast<void*>(dot_handler);
}

} // namespace neuron
