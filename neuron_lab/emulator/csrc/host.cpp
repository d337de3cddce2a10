// Running an op's CPU kernel on aliases of the device memory: what a *fallback* does, and host-assisted ops.
#include "dispatch.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstring>

namespace neuron {
namespace {

using c10::Storage;

struct Aliased {
  at::Tensor device, host;
  void* data; // before the call: a CPU kernel that resizes its output allocates anew
};

class HostCall {
 public:
  HostCall(const c10::OperatorHandle& op, c10::DeviceIndex core) : op_(op), core_(core) {}

  c10::IValue to_host(const c10::IValue& v) {
    if (v.isTensor())
      return to_host(v.toTensor());
    if (v.isTensorList()) {
      c10::List<at::Tensor> out;
      for (const c10::IValue& item : v.toListRef())
        out.push_back(to_host(item.toTensor()));
      return out;
    }
    if (v.isList() && v.toList().elementType()->kind() == c10::TypeKind::OptionalType) {
      c10::List<std::optional<at::Tensor>> out;
      for (const c10::IValue& item : v.toListRef())
        out.push_back(item.isNone() ? std::optional<at::Tensor>() : std::optional<at::Tensor>(to_host(item.toTensor())));
      return out;
    }
    if (v.isDevice() && v.toDevice().type() == kDevice)
      return c10::Device(c10::DeviceType::CPU);
    if (v.isGenerator() && v.toGenerator().defined())
      return host_generator(v.toGenerator());
    return v;
  }

  c10::IValue to_device(const c10::IValue& v) {
    if (v.isTensor())
      return to_device(v.toTensor());
    if (v.isTensorList()) {
      c10::List<at::Tensor> out;
      for (const c10::IValue& item : v.toListRef())
        out.push_back(to_device(item.toTensor()));
      return out;
    }
    return v;
  }

  // A kernel that resized an output or changed its geometry did so on the alias: repeat it on the device tensor.
  void write_back() {
    for (Aliased& a : aliased_) {
      auto* impl = a.device.unsafeGetTensorImpl();
      const Storage& storage = a.host.storage();
      if (storage.data() != a.data) {
        std::unique_ptr<Block> block = take_over(storage);
        const size_t nbytes = block->nbytes;
        a.device.storage().set_data_ptr_noswap(adopt(std::move(block)));
        a.device.storage().set_nbytes(nbytes);
        a.data = storage.mutable_data();
      }
      if (a.host.sizes() != a.device.sizes() || a.host.strides() != a.device.strides() || a.host.storage_offset() != a.device.storage_offset())
        impl->set_sizes_and_strides(a.host.sizes(), a.host.strides(), a.host.storage_offset());
    }
  }

 private:
  at::Tensor to_host(const at::Tensor& tensor) {
    if (!on_device(tensor))
      return tensor;
    for (Aliased& a : aliased_)
      if (a.device.is_same(tensor))
        return a.host;
    at::Tensor host = host_alias(tensor);
    // Tensors that share a storage must share one alias storage, or a resize of one would be lost on the other.
    for (Aliased& a : aliased_)
      if (a.device.is_alias_of(tensor)) {
        host.unsafeGetTensorImpl()->set_storage_keep_dtype(a.host.storage());
        break;
      }
    aliased_.push_back({tensor, host, host.storage().mutable_data()});
    return host;
  }

  at::Tensor to_device(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.device().type() != c10::DeviceType::CPU)
      return tensor;
    if (tensor.layout() != at::kStrided || tensor.is_quantized() || tensor.unsafeGetTensorImpl()->is_nested())
      refuse_layout(toString(op_.operator_name()));
    for (Aliased& a : aliased_)
      if (a.host.is_same(tensor))
        return a.device;
    for (Aliased& a : aliased_)
      if (a.host.is_alias_of(tensor))
        return over(a.device.storage(), tensor);
    for (auto& [host, device] : adopted_)
      if (host.is_alias_of(tensor.storage()))
        return over(device, tensor);
    std::unique_ptr<Block> block = take_over(tensor.storage());
    const size_t nbytes = block->nbytes;
    at::DataPtr data = nbytes ? adopt(std::move(block)) : allocator()->allocate(0);
    Storage device(Storage::use_byte_size_t(), nbytes, std::move(data), allocator(), /*resizable=*/true);
    adopted_.emplace_back(tensor.storage(), device);
    return over(device, tensor);
  }

  static at::Tensor over(const Storage& storage, const at::Tensor& like) {
    auto out = at::detail::make_tensor<c10::TensorImpl>(Storage(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), like.dtype());
    auto* impl = out.unsafeGetTensorImpl();
    impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
    impl->_set_conj(like.is_conj());
    impl->_set_neg(like.is_neg());
    return out;
  }

  // Device memory made of a CPU result's memory. It is copied when the memory is not the result's alone (a constant, a
  // generator's state) or not aligned for the next executable.
  std::unique_ptr<Block> take_over(const Storage& storage) {
    auto block = std::make_unique<Block>();
    block->nbytes = storage.nbytes();
    block->core = core_;
    if (block->nbytes == 0)
      return block;
    auto data = reinterpret_cast<uintptr_t>(storage.data());
    if (data % kAlignment == 0 && storage.use_count() == 1 && storage.allocator() == c10::GetAllocator(c10::DeviceType::CPU)) {
      block->host_owner = storage.set_data_ptr(at::DataPtr(storage.mutable_data(), c10::Device(c10::DeviceType::CPU)));
      block->data = block->host_owner.get();
    } else {
      const size_t padded = (block->nbytes + kAlignment - 1) / kAlignment * kAlignment;
      block->data = std::aligned_alloc(kAlignment, padded);
      TORCH_CHECK_WITH(OutOfMemoryError, block->data, "the emulator's host has no memory left for ", padded, " bytes of emulated HBM");
      std::memcpy(block->data, storage.data(), block->nbytes);
    }
    return block;
  }

  const c10::OperatorHandle& op_;
  c10::DeviceIndex core_;
  std::deque<Aliased> aliased_;
  std::vector<std::pair<Storage, Storage>> adopted_;
};

} // namespace

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack, c10::DeviceIndex core) {
  HostCall call(op, core);
  const size_t count = op.schema().arguments().size();
  for (size_t i = stack->size() - count; i < stack->size(); ++i)
    (*stack)[i] = call.to_host((*stack)[i]);
  {
    // The caller's autocast for the CPU must not act inside a kernel of this device.
    c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    op.callBoxed(stack);
  }
  call.write_back();
  for (size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); ++i)
    (*stack)[i] = call.to_device((*stack)[i]);
}

} // namespace neuron
