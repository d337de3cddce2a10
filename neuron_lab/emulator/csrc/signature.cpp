// The signature of a call: what makes two calls share an executable. Built in C++ for every op call, so it is kept cheap:
// raw bytes appended to a string. dispatch.py derives the readable signature from the same leaves, on a miss only.
#include "dispatch.h"

#include <ATen/ops/copy_ops.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace neuron {
namespace {

template <class T>
void put(std::string& key, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>, "its bytes are addresses, not what it holds");
  key.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put(std::string& key, c10::IntArrayRef values) {
  put(key, uint8_t(values.size()));
  key.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t));
}

struct Describer {
  const OpInfo& info;
  Call& call;

  void check_core(c10::DeviceIndex core) {
    if (call.core < 0)
      call.core = core;
    TORCH_CHECK(
        call.core == core, "Expected all tensors to be on the same device, but found at least two devices, neuron:", int(call.core),
        " and neuron:", int(core), "! (when calling ", info.name, "). Move one of them with .to().");
  }

  void reject_host_tensor(const at::Tensor& tensor) {
    const int core = call.core < 0 ? int(current_core()) : int(call.core);
    TORCH_CHECK(
        false, "Expected all tensors to be on the same device, but found at least two devices, neuron:", core, " and ", tensor.device(),
        "! Non-scalar tensor arg", call.leaves.size(), " is on ", tensor.device(), " device, expected neuron (when calling ", info.name,
        ", shape ", tensor.sizes(), "). Move it with .to(\"neuron\").");
  }

  void number(char tag, at::ScalarType dtype, const void* bits, bool wrapped, bool scalar) {
    Leaf& leaf = call.leaves.emplace_back();
    leaf.dtype = dtype;
    leaf.wrapped = wrapped;
    leaf.number = scalar;
    std::memcpy(leaf.bits, bits, c10::elementSize(dtype));
    call.key += tag;
    put(call.key, dtype);
    call.key += char(wrapped);
  }

  void host_tensor(const at::Tensor& tensor, bool written) {
    if (tensor.dim() == 0 && !written) { // numbers, and 0-d CPU tensors, which PyTorch lets take part anywhere
      number('0', tensor.scalar_type(), tensor.const_data_ptr(), tensor.unsafeGetTensorImpl()->is_wrapped_number(), false);
      call.leaves.back().original = &tensor;
      call.leaves.back().scalar = true;
      return;
    }
    if (!info.takes_host_tensors || written || tensor.device().type() != c10::DeviceType::CPU)
      reject_host_tensor(tensor);
    const c10::DeviceIndex core = call.core < 0 ? current_core() : call.core;
    at::Tensor& copy = call.copies.emplace_back(empty_strided_on(core, tensor.sizes(), c10::contiguous_strides(tensor.sizes()), tensor.scalar_type()));
    transfer(tensor, copy);
    device_tensor(copy, false);
  }

  // Some ops (mm, dot) receive conjugated views as they are and would read the bits unresolved.
  const at::Tensor& resolved(const at::Tensor& tensor) {
    at::Tensor& copy = call.copies.emplace_back(
        empty_strided_on(call.core, tensor.sizes(), c10::contiguous_strides(tensor.sizes()), tensor.scalar_type()));
    at::_ops::copy_::call(host_alias_of_copy(copy), host_alias(tensor), false);
    return copy;
  }

  void device_tensor(const at::Tensor& given, bool written) {
    check_core(given.get_device());
    const at::Tensor& tensor = !written && given.numel() != 0 && (given.is_conj() || given.is_neg()) ? resolved(given) : given;
    Leaf& leaf = call.leaves.emplace_back();
    leaf.original = leaf.source = &tensor;
    leaf.dtype = tensor.scalar_type();
    leaf.written = written;
    if (tensor.numel() == 0)
      call.any_empty = call.any_empty || !written;
    else
      call.any_input = call.any_input || !written;
    call.bytes += int64_t(tensor.nbytes());
    if (tensor.numel() != 0 && !buffer_layout(tensor, leaf)) {
      // Gaps or overlaps: a strided DMA makes a dense copy, and the call shares the NEFF of dense calls.
      Shape strides(leaf.layout.size());
      for (size_t i = 0; i < leaf.layout.size(); ++i)
        strides[i] = tensor.stride(leaf.layout[i]);
      at::Tensor& copy = call.copies.emplace_back(empty_strided_on(call.core, leaf.shape, c10::contiguous_strides(leaf.shape), leaf.dtype));
      at::Tensor gathered = host_alias(tensor);
      gathered.unsafeGetTensorImpl()->set_sizes_and_strides(leaf.shape, strides, tensor.storage_offset());
      at::_ops::copy_::call(host_alias_of_copy(copy), gathered, false);
      leaf.source = &copy;
    }
    call.key += leaf.contiguous ? 'C' : 'L';
    put(call.key, leaf.dtype);
    put(call.key, tensor.sizes());
    if (!leaf.contiguous)
      put(call.key, c10::IntArrayRef(leaf.layout)); // not its bytes: a Shape points to what it holds
  }

  at::Tensor& host_alias_of_copy(const at::Tensor& copy) {
    return call.copies.emplace_back(host_alias(copy));
  }

  void tensor(const at::Tensor& tensor, bool written) {
    if (!tensor.defined())
      call.key += 'N';
    else if (on_device(tensor))
      device_tensor(tensor, written);
    else
      host_tensor(tensor, written);
  }

  void value(const c10::IValue& v, bool lifted, bool written) {
    if (v.isTensor()) {
      tensor(v.toTensor(), written);
    } else if (v.isNone()) {
      call.key += 'N';
    } else if (v.isInt()) {
      const int64_t x = v.toInt();
      if (lifted)
        return number('#', at::kLong, &x, false, true);
      call.key += 'i';
      put(call.key, x);
    } else if (v.isDouble()) {
      const double x = v.toDouble();
      if (lifted)
        return number('#', at::kDouble, &x, false, true);
      call.key += 'd';
      put(call.key, x);
    } else if (v.isBool()) {
      call.key += v.toBool() ? 'T' : 'F';
    } else if (v.isComplexDouble()) {
      const auto x = v.toComplexDouble();
      if (lifted)
        return number('#', at::kComplexDouble, &x, false, true);
      call.key += 'z';
      put(call.key, x);
    } else if (v.isList()) {
      const auto items = v.toListRef();
      call.key += '[';
      put(call.key, uint32_t(items.size()));
      for (const c10::IValue& item : items)
        value(item, lifted, written); // a list of numbers, as the bias corrections of an optimizer, is lifted item by item
    } else if (v.isDevice()) {
      const c10::Device device = v.toDevice();
      if (device.type() == kDevice && device.has_index())
        check_core(device.index());
    } else if (v.isString()) {
      call.key += 's';
      put(call.key, uint32_t(v.toStringRef().size()));
      call.key += v.toStringRef();
    } else if (v.isSymInt() || v.isSymFloat() || v.isSymBool()) {
      TORCH_CHECK(false, info.name, ": symbolic sizes cannot reach a device kernel");
    } else {
      call.key += '?'; // generators, streams: never part of what is compiled
    }
  }
};

} // namespace

bool lifts(const OpInfo& info, const c10::FunctionSchema& schema, size_t i, const c10::IValue& value) {
  if (info.lifted[i] && value.isList())
    return true;
  if (!info.lifted[i] || !(value.isInt() || value.isDouble() || value.isComplexDouble()))
    return false;
  const auto& usual = schema.arguments()[i].default_value();
  if (!usual || !(usual->isInt() || usual->isDouble()) || value.isComplexDouble())
    return true;
  return usual->toScalar().toDouble() != value.toScalar().toDouble();
}

bool buffer_layout(const at::Tensor& tensor, Leaf& leaf) {
  if (tensor.is_contiguous()) {
    leaf.shape.assign(tensor.sizes().begin(), tensor.sizes().end());
    return true;
  }
  leaf.contiguous = false;
  for (int64_t d = 0; d < tensor.dim(); ++d)
    if (tensor.size(d) != 1 && tensor.stride(d) != 0)
      leaf.layout.push_back(d);
  std::stable_sort(leaf.layout.begin(), leaf.layout.end(), [&](int64_t a, int64_t b) { return tensor.stride(a) > tensor.stride(b); });
  int64_t expected = 1;
  bool dense = true;
  for (auto d = leaf.layout.rbegin(); d != leaf.layout.rend(); ++d) {
    dense = dense && tensor.stride(*d) == expected;
    expected *= tensor.size(*d);
  }
  for (int64_t d : leaf.layout)
    leaf.shape.push_back(tensor.size(d));
  // A dense copy in dimension order without expanded dimensions is simply contiguous.
  if (!dense && std::is_sorted(leaf.layout.begin(), leaf.layout.end())) {
    bool expanded = false;
    for (int64_t d = 0; d < tensor.dim(); ++d)
      expanded = expanded || (tensor.size(d) != 1 && tensor.stride(d) == 0);
    if (!expanded) {
      leaf.contiguous = true;
      leaf.layout.clear();
      leaf.shape.assign(tensor.sizes().begin(), tensor.sizes().end());
      for (int64_t d = 0; d < tensor.dim(); ++d)
        leaf.layout.push_back(d);
    }
  }
  return dense;
}

void describe(const c10::OperatorHandle& op, const OpInfo& info, const torch::jit::Stack& stack, Call& call) {
  const size_t count = op.schema().arguments().size();
  const c10::IValue* arguments = stack.data() + stack.size() - count;
  call.key.reserve(160);
  const void* identity = &info;
  put(call.key, identity);
  put(call.key, c10::get_default_dtype_as_scalartype()); // int / int, mean, arange: the result's dtype depends on it
  Describer describer{info, call};
  for (size_t i = 0; i < count; ++i)
    describer.value(arguments[i], lifts(info, op.schema(), i, arguments[i]), info.written[i]);
  if (call.core < 0)
    call.core = current_core();
}

} // namespace neuron
