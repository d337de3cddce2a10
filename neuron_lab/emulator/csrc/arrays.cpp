// Between device memory and the XLA arrays an executable takes and gives. All with the GIL held.
#include "dispatch.h"

#include <ATen/dlpack.h>

#include <cstring>

namespace neuron {
namespace {

DLDataType dlpack_type(at::ScalarType dtype) {
  const auto bits = uint8_t(c10::elementSize(dtype) * 8);
  if (dtype == at::kBool)
    return {kDLBool, 8, 1};
  if (dtype == at::kBFloat16)
    return {kDLBfloat, 16, 1};
  if (c10::isComplexType(dtype))
    return {kDLComplex, bits, 1};
  if (c10::isFloatingType(dtype))
    return {kDLFloat, bits, 1};
  return {uint8_t(c10::isSignedType(dtype) ? kDLInt : kDLUInt), bits, 1};
}

struct Managed {
  DLManagedTensor tensor{};
  Shape shape;
};

void delete_managed(DLManagedTensor* tensor) {
  delete static_cast<Managed*>(tensor->manager_ctx);
}

void delete_unused_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor"))
    delete_managed(static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor")));
}

// While it lives, importing one module of the package `jax` fails at once. jaxlib asks for that module at each import of memory and does
// without it; to find out that it is not installed takes Python ten times as long as the rest. A program's own `jax` is left alone, from
// the moment on at which another thread begins to import it.
class WithoutJax {
 public:
  WithoutJax() : modules_(PyImport_GetModuleDict()) {
    static PyObject* package = PyUnicode_InternFromString("jax");
    ours_ = !PyDict_Contains(modules_, package) && !PyDict_Contains(modules_, name()) && PyDict_SetItem(modules_, name(), Py_None) == 0;
  }
  ~WithoutJax() {
    if (ours_ && PyDict_GetItem(modules_, name()) == Py_None)
      PyDict_DelItem(modules_, name());
  }
  WithoutJax(const WithoutJax&) = delete;
  WithoutJax& operator=(const WithoutJax&) = delete;

 private:
  static PyObject* name() {
    static PyObject* text = PyUnicode_InternFromString("jax._src.sharding_impls");
    return text;
  }
  PyObject* modules_;
  bool ours_;
};

// A new array that reads `data` in place and owns nothing. XLA copies when `data` is not 64-byte aligned.
PyObject* import_memory(void* data, at::ScalarType dtype, const Shape& shape) {
  auto* managed = new Managed;
  managed->shape = shape;
  DLTensor& t = managed->tensor.dl_tensor;
  t.data = data;
  t.device = {kDLCPU, 0};
  t.ndim = int32_t(shape.size());
  t.dtype = dlpack_type(dtype);
  t.shape = managed->shape.data();
  managed->tensor.manager_ctx = managed;
  managed->tensor.deleter = &delete_managed;
  PyObject* capsule = PyCapsule_New(&managed->tensor, "dltensor", &delete_unused_capsule);
  PyObject* args[] = {capsule, g_callbacks.device, Py_None};
  PyObject* array;
  {
    const WithoutJax quick;
    array = PyObject_Vectorcall(g_callbacks.import_dlpack, args, 3, nullptr);
  }
  Py_DECREF(capsule);
  if (!array)
    throw_python_error();
  return array;
}

// Numbers come again and again (x * 2, an optimizer's lr): each value is imported once, in a bounded cache.
struct NumberKey {
  at::ScalarType dtype;
  std::array<char, 16> bits;
  bool operator==(const NumberKey& other) const {
    return dtype == other.dtype && bits == other.bits;
  }
};
struct NumberHash {
  size_t operator()(const NumberKey& key) const {
    return std::hash<std::string_view>()({key.bits.data(), key.bits.size()}) ^ size_t(key.dtype);
  }
};
struct Number {
  alignas(kAlignment) char bytes[kAlignment];
  PyObject* array = nullptr;
};
constexpr size_t kNumbers = 1024; // an array and its buffer take about 4 kB

PyObject* array_of_number(const Leaf& leaf) {
  static auto* cache = new std::unordered_map<NumberKey, std::unique_ptr<Number>, NumberHash>;
  NumberKey key{leaf.dtype, {}};
  std::memcpy(key.bits.data(), leaf.bits, sizeof leaf.bits);
  auto found = cache->find(key);
  if (found != cache->end())
    return found->second->array;
  if (cache->size() >= kNumbers) {
    for (auto& entry : *cache)
      Py_DECREF(entry.second->array);
    cache->clear();
  }
  auto number = std::make_unique<Number>();
  std::memcpy(number->bytes, leaf.bits, sizeof leaf.bits);
  number->array = import_memory(number->bytes, leaf.dtype, {});
  return cache->emplace(key, std::move(number)).first->second->array;
}

constexpr size_t kImportsPerBlock = 8; // one memory seen as more shapes than this is imported anew each time

} // namespace

PyObject* array_of(const Leaf& leaf, std::vector<PyObject*>& owned) {
  if (!leaf.source) {
    PyObject* array = array_of_number(leaf);
    Py_INCREF(array); // the cache may be emptied while this call gathers its other numbers
    owned.push_back(array);
    return array;
  }
  check_memory(*leaf.source);
  Block* block = block_of(*leaf.source);
  char* data = static_cast<char*>(leaf.source->mutable_data_ptr());
  if (!block) {
    owned.push_back(import_memory(data, leaf.dtype, leaf.shape));
    return owned.back();
  }
  const size_t offset = size_t(data - static_cast<char*>(block->data));
  for (const Import& import : block->imports)
    if (import.dtype == leaf.dtype && import.offset == offset &&
        c10::IntArrayRef(import.shape) == c10::IntArrayRef(leaf.shape))
      return import.array;
  PyObject* array = import_memory(data, leaf.dtype, leaf.shape);
  // An unaligned import is a copy of this moment's values: never kept.
  if (reinterpret_cast<uintptr_t>(data) % kAlignment == 0 && block->imports.size() < kImportsPerBlock)
    block->imports.push_back({leaf.dtype, offset, {leaf.shape.begin(), leaf.shape.end()}, array});
  else
    owned.push_back(array);
  return array;
}

void* array_data(PyObject* array) {
  static PyObject* name = PyUnicode_InternFromString("unsafe_buffer_pointer");
  PyObject* args[] = {array};
  PyObject* pointer = PyObject_VectorcallMethod(name, args, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  if (!pointer)
    throw_python_error();
  void* data = PyLong_AsVoidPtr(pointer);
  Py_DECREF(pointer);
  return data;
}

at::Tensor wrap_result(const Result& result, PyObject* array, c10::DeviceIndex core) {
  if (result.nbytes == 0)
    return empty_strided_on(core, result.sizes, result.strides, result.dtype);
  auto block = std::make_unique<Block>();
  block->data = array_data(array);
  block->nbytes = size_t(result.nbytes);
  block->core = core;
  Py_INCREF(array);
  block->array_owner = array;
  // The next op that takes this tensor imports nothing: the result is its own array.
  Py_INCREF(array);
  block->imports.push_back({result.dtype, 0, {result.shape.begin(), result.shape.end()}, array});
  return tensor_over(adopt(std::move(block)), size_t(result.nbytes), result.dtype, result.sizes, result.strides);
}

} // namespace neuron
