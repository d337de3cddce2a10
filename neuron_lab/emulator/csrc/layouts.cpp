// Sparse, quantised and nested tensors do not live on the device: whatever reaches it with one gets the same clear error.
#include "device.h"

#include <torch/library.h>

namespace neuron {
namespace {

void refuse(const c10::OperatorHandle& op, torch::jit::Stack*) {
  refuse_layout(toString(op.operator_name()));
}

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse>());
}

TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse>());
}

TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse>());
}

TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse>());
}

} // namespace

void refuse_layout(const std::string& op) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, op, ": the neuron device holds dense tensors only, not sparse, quantized, MKL-DNN or strided nested ones. Do this part on the CPU, "
      "x.cpu() there and .to(\"neuron\") with the dense result (sparse gradients: sparse=False; nested tensors: layout=torch.jagged; "
      "nn.TransformerEncoder with a padding mask: enable_nested_tensor=False).");
}

} // namespace neuron
