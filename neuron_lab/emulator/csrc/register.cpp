// Which ops come down the eager road, and the few that need a hand before they do.
#include "dispatch.h"

#include <ATen/ops/bernoulli_ops.h>
#include <ATen/ops/empty_like_ops.h>
#include <ATen/ops/native_dropout_backward_ops.h>
#include <ATen/ops/zeros.h>
#include <ATen/core/enum_tag.h>
#include <torch/library.h>

#include <cstring>
#include <set>

namespace neuron {
namespace {

using torch::CppFunction;
using torch::jit::Stack;

// Their composite kernels allocate, copy or describe, and compute nothing.
const std::set<std::string> kMoves = {
    "aten::copy_", "aten::clone", "aten::_to_copy", "aten::detach", "aten::lift", "aten::lift_fresh", "aten::resize_as_", "aten::resize_as_sparse_",
    "aten::new_empty", "aten::new_empty_strided", "aten::empty_like", "aten::zeros_like", "aten::ones_like", "aten::full_like", "aten::new_zeros",
    "aten::new_ones", "aten::new_full", "aten::rand_like", "aten::randn_like", "aten::randint_like", "aten::is_pinned", "aten::_pin_memory",
    "aten::pin_memory", "aten::resize", "aten::resize_as", "aten::set_", "aten::_copy_from", "aten::to_sparse", "aten::_to_sparse",
    "aten::to_mkldnn", "aten::_sparse_coo_tensor_with_dims_and_tensors", "aten::is_same_size", "aten::_lazy_clone", "aten::_unsafe_view", "aten::unsafe_split",
    "aten::unsafe_split_with_sizes", "aten::_nested_tensor_from_tensor_list", "aten::bernoulli", "aten::normal_functional", "aten::contiguous"};

// A composite kernel that computes: worth one executable of its own instead of one for each of its parts.
bool computes(const c10::FunctionSchema& schema) {
  bool takes_tensor = false;
  for (const c10::Argument& argument : schema.arguments()) {
    const auto kind = argument.type()->kind();
    takes_tensor = takes_tensor || kind == c10::TypeKind::TensorType ||
        (kind == c10::TypeKind::ListType && argument.type()->castRaw<c10::ListType>()->getElementType()->kind() == c10::TypeKind::TensorType);
  }
  if (!takes_tensor || kMoves.count(schema.name()))
    return false;
  for (const c10::Argument& result : schema.returns()) {
    const bool view = result.alias_info() && !result.alias_info()->isWrite();
    const auto kind = result.type()->kind();
    if (view || (kind != c10::TypeKind::TensorType && kind != c10::TypeKind::ListType))
      return false;
  }
  // foreach ops in place return nothing but write to their lists.
  return !schema.returns().empty() || schema.name().rfind("aten::_foreach_", 0) == 0;
}

void to_copy(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const c10::IValue* arguments = stack->data() + stack->size() - op.schema().arguments().size();
  const at::Tensor& self = arguments[0].toTensor();
  const bool same_device = arguments[3].isNone() || arguments[3].toDevice() == self.device() ||
      (arguments[3].toDevice().type() == kDevice && !arguments[3].toDevice().has_index() && self.get_device() == current_core());
  const bool casts = !arguments[1].isNone() && arguments[1].toScalarType() != self.scalar_type();
  if (on_device(self) && same_device && casts)
    run(op, keys, stack);
  else
    op.callBoxedForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd, *stack);
}

// Random numbers are drawn on the host, so dropout is a host mask and one executable: the CPU's formula, input * mask * scale,
// which is also the one of its backward.
std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train) {
  static const auto apply = c10::Dispatcher::singleton().findSchemaOrThrow("aten::native_dropout_backward", "");
  static const auto self = c10::Dispatcher::singleton().findSchemaOrThrow("aten::native_dropout", "");
  const double keep = train.value_or(true) ? 1.0 - p : 1.0;
  at::Tensor host_mask = at::_ops::empty_like::call(host_alias(input), at::kBool, std::nullopt, std::nullopt, std::nullopt, std::nullopt);
  // CPU torch draws nothing when dropout is off.
  if (train.value_or(true))
    at::_ops::bernoulli__float::call(host_mask, keep, std::nullopt);
  else
    std::memset(host_mask.mutable_data_ptr(), 1, host_mask.nbytes());
  at::Tensor mask = empty_strided_on(input.device().index(), host_mask.sizes(), host_mask.strides(), at::kBool);
  if (mask.numel() != 0)
    transfer(host_mask, mask);
  Stack stack{input, mask, keep == 0 ? 0.0 : 1.0 / keep};
  OpInfo* shown;
  {
    PyGILState_STATE gil = PyGILState_Ensure();
    shown = &info_of(self);
    PyGILState_Release(gil);
  }
  run_shown_as(apply, *shown, &stack);
  return {stack.back().toTensor(), mask};
}

// Without elements there is no buffer to hand to an executable, and no CPU kernel to go to.
void linear_backward(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const c10::IValue* arguments = stack->data() + stack->size() - op.schema().arguments().size();
  const at::Tensor self = arguments[0].toTensor(), gradient = arguments[1].toTensor(), weight = arguments[2].toTensor();
  if (self.numel() != 0 && gradient.numel() != 0 && weight.numel() != 0)
    return run(op, keys, stack);
  const auto wanted = arguments[3].toBoolList().vec();
  const auto bias_sizes = weight.sizes().slice(0, size_t(weight.dim() - 1));
  torch::jit::drop(*stack, op.schema().arguments().size());
  auto zeros = [&](c10::IntArrayRef sizes) { return at::zeros(sizes, gradient.options()); };
  at::Tensor of_input, of_weight, of_bias;
  if (wanted[0])
    of_input = zeros(self.sizes());
  if (wanted[1]) // the CPU's strides: without input features it is a product's transpose
    of_weight = weight.dim() == 2 && weight.size(1) == 0 ? zeros({0, weight.size(0)}).t() : zeros(weight.sizes());
  if (wanted[2]) // without input features the bias has a gradient all the same
    of_bias = gradient.numel() != 0 ? gradient.reshape({-1, c10::multiply_integers(bias_sizes)}).sum(0).reshape(bias_sizes) : zeros(bias_sizes);
  torch::jit::push(*stack, of_input, of_weight, of_bias);
}

// As TorchNeuron: `p.data = device_tensor` works and module.to("neuron") keeps its Parameter objects, so an optimizer built
// before the move stays linked.
bool shallow_copy_compatible(const at::Tensor& self, const at::Tensor& from) {
  auto plain = [](const at::Tensor& t) {
    return t.layout() == at::kStrided && (t.device().is_cpu() || t.device().type() == kDevice) && !t.is_quantized();
  };
  if (plain(self) && plain(from))
    return true;
  return self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set());
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(CppFunction::makeFromBoxedFunction<&run>());
}

TORCH_LIBRARY_IMPL(aten, CPU, m) {
  m.impl("_has_compatible_shallow_copy_type", &shallow_copy_compatible);
}

} // namespace

// Ops with a composite kernel would take it before the fallback above: each gets the kernel by name.
void register_ops() {
  static torch::Library aten(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  std::set<std::string> done;
  auto add = [&](const c10::OperatorName& name) {
    const std::string text = toString(name);
    auto handle = dispatcher.findSchema(name);
    if (handle && !handle->hasTag(at::Tag::inplace_view) && text.rfind("aten::", 0) == 0 && !handle->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1) && done.insert(text).second)
      aten.impl(text.substr(6).c_str(), CppFunction::makeFromBoxedFunction<&run>());
  };
  aten.impl("_to_copy", CppFunction::makeFromBoxedFunction<&to_copy>());
  aten.impl("native_dropout", &native_dropout);
  aten.impl("linear_backward", CppFunction::makeFromBoxedFunction<&linear_backward>());
  aten.impl("_has_compatible_shallow_copy_type", &shallow_copy_compatible);
  for (const c10::OperatorName& name : dispatcher.getRegistrationsForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional))
    add(name);
  for (const c10::OperatorName& name : dispatcher.getRegistrationsForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd))
    if (computes(dispatcher.findSchemaOrThrow(name.name.c_str(), name.overload_name.c_str()).schema()))
      add(name);
  add({"aten::linear", ""}); // an op of its own on TorchNeuron; its backward is one already
  // Factories that compute what they fill in.
  for (const char* overload : {"arange.", "arange.start", "arange.start_step", "eye.", "eye.m", "linspace.", "logspace."}) {
    const std::string text = overload;
    const size_t dot = text.find('.');
    add({"aten::" + text.substr(0, dot), text.substr(dot + 1)});
  }
}

} // namespace neuron
