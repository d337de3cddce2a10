// torch.autocast("neuron"): PyTorch's stock lists of ops (ATen/autocast_mode.h, which costs half a minute to compile), as
// four boxed kernels.
#include "device.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace at::autocast {
TORCH_API at::ScalarType get_autocast_dtype(at::DeviceType device_type);
TORCH_API Tensor cached_cast(at::ScalarType to_type, const Tensor& arg, DeviceType device_type);
} // namespace at::autocast

namespace neuron {
namespace {

using c10::OperatorHandle;
using torch::jit::Stack;

// As in PyTorch's lists, a bare name is the overload without a name.
constexpr const char* kLowerPrecision[] = {
    "_convolution.deprecated", "_convolution", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d.input",
    "conv_transpose3d.input", "convolution", "prelu", "addmm", "addmv", "addr", "matmul", "einsum", "mm", "mv", "linalg_vecdot", "linear",
    "addbmm", "baddbmm", "bmm", "chain_matmul", "linalg_multi_dot", "_thnn_fused_lstm_cell", "_thnn_fused_gru_cell", "lstm_cell", "gru_cell",
    "rnn_tanh_cell", "rnn_relu_cell", "_scaled_dot_product_flash_attention", "scaled_dot_product_attention"};

constexpr const char* kFloat32[] = {
    "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt", "sinh", "tan",
    "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar", "softplus", "layer_norm", "native_layer_norm", "rms_norm", "group_norm",
    "frobenius_norm.dim", "nuclear_norm", "nuclear_norm.dim", "cosine_similarity", "poisson_nll_loss", "cosine_embedding_loss", "nll_loss",
    "nll_loss2d", "hinge_embedding_loss", "kl_div", "l1_loss", "smooth_l1_loss", "huber_loss", "mse_loss", "margin_ranking_loss",
    "multilabel_margin_loss", "soft_margin_loss", "triplet_margin_loss", "multi_margin_loss", "binary_cross_entropy_with_logits", "dist",
    "pdist", "cdist", "renorm", "logsumexp", "upsample_nearest1d", "_upsample_nearest_exact1d", "upsample_nearest2d",
    "_upsample_nearest_exact2d", "upsample_nearest3d", "_upsample_nearest_exact3d", "upsample_linear1d", "upsample_bilinear2d",
    "_upsample_bilinear2d_aa", "upsample_trilinear3d", "upsample_bicubic2d", "_upsample_bicubic2d_aa", "norm.Scalar",
    "norm.ScalarOpt_dim", "norm.names_ScalarOpt_dim"};

// These take an accumulation dtype: it becomes float32 unless the caller chose one.
constexpr const char* kFloat32Result[] = {
    "prod", "prod.dim_int", "softmax.int", "log_softmax.int", "cumprod", "cumsum", "linalg_vector_norm", "linalg_matrix_norm",
    "linalg_matrix_norm.str_ord", "sum", "sum.dim_IntList"};

constexpr const char* kPromote[] = {
    "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "grid_sampler", "index_put", "tensordot", "scatter_add"};

struct NoAutocast {
  c10::impl::ExcludeDispatchKeyGuard guard{c10::DispatchKey::AutocastPrivateUse1};
};

bool eligible(const at::Tensor& tensor) {
  return on_device(tensor) && tensor.is_floating_point() && tensor.scalar_type() != at::kDouble;
}

bool is_lower(const at::Tensor& tensor) {
  return eligible(tensor) && (tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16);
}

template <class Visit>
void each_argument(const OperatorHandle& op, Stack* stack, const Visit& visit) {
  for (size_t i = stack->size() - op.schema().arguments().size(); i < stack->size(); ++i)
    visit((*stack)[i]);
}

void cast_arguments(const OperatorHandle& op, Stack* stack, at::ScalarType dtype) {
  auto cast = [&](const at::Tensor& t) { return eligible(t) ? at::autocast::cached_cast(dtype, t, kDevice) : t; };
  each_argument(op, stack, [&](c10::IValue& v) {
    if (v.isTensor()) {
      v = cast(v.toTensor());
    } else if (v.isTensorList()) {
      c10::List<at::Tensor> out;
      for (const c10::IValue& item : v.toListRef())
        out.push_back(cast(item.toTensor()));
      v = std::move(out);
    }
  });
}

void lower_precision(const OperatorHandle& op, Stack* stack) {
  NoAutocast guard;
  cast_arguments(op, stack, at::autocast::get_autocast_dtype(kDevice));
  op.callBoxed(stack);
}

void float32(const OperatorHandle& op, Stack* stack) {
  NoAutocast guard;
  cast_arguments(op, stack, at::kFloat);
  op.callBoxed(stack);
}

void float32_result(const OperatorHandle& op, Stack* stack) {
  NoAutocast guard;
  const auto& arguments = op.schema().arguments();
  const size_t base = stack->size() - arguments.size();
  if ((*stack)[base].isTensor() && is_lower((*stack)[base].toTensor()))
    for (size_t i = 0; i < arguments.size(); ++i)
      if (arguments[i].name() == "dtype" && (*stack)[base + i].isNone())
        (*stack)[base + i] = int64_t(at::kFloat);
  op.callBoxed(stack);
}

void promote(const OperatorHandle& op, Stack* stack) {
  NoAutocast guard;
  at::ScalarType widest = at::autocast::get_autocast_dtype(kDevice);
  auto look = [&](const at::Tensor& t) {
    if (eligible(t) && t.scalar_type() == at::kFloat)
      widest = at::kFloat;
  };
  each_argument(op, stack, [&](c10::IValue& v) {
    if (v.isTensor())
      look(v.toTensor());
    else if (v.isTensorList())
      for (const c10::IValue& item : v.toListRef())
        look(item.toTensor());
  });
  cast_arguments(op, stack, widest);
  op.callBoxed(stack);
}

void banned(const OperatorHandle&, Stack*) {
  TORCH_CHECK(
      false, "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast. Use binary_cross_entropy_with_logits or "
             "torch.nn.BCEWithLogitsLoss, which are safe, or leave autocast around the loss.");
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  using torch::CppFunction;
  for (const char* name : kLowerPrecision)
    m.impl(name, CppFunction::makeFromBoxedFunction<&lower_precision>());
  for (const char* name : kFloat32)
    m.impl(name, CppFunction::makeFromBoxedFunction<&float32>());
  for (const char* name : kFloat32Result)
    m.impl(name, CppFunction::makeFromBoxedFunction<&float32_result>());
  for (const char* name : kPromote)
    m.impl(name, CppFunction::makeFromBoxedFunction<&promote>());
  m.impl("binary_cross_entropy", CppFunction::makeFromBoxedFunction<&banned>());
}

} // namespace
} // namespace neuron
