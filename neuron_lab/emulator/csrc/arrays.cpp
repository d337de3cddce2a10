// Between device memory and the XLA arrays an executable takes and gives. All with the GIL held.
#include "dispatch.h"

#include <ATen/Parallel.h>
#include <ATen/dlpack.h>

#include <cstdlib>
#include <cstring>

namespace neuron {
namespace {

constexpr int64_t kBytesWorthAThread = 1 << 20;

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

struct Free {
  void operator()(void* data) const {
    std::free(data);
  }
};

struct Managed {
  DLManagedTensor tensor{};
  Shape shape;
  std::unique_ptr<void, Free> copy; // of memory that is not aligned
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

bool is_aligned(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % kAlignment == 0;
}

std::unique_ptr<void, Free> aligned_copy(const void* data, size_t nbytes) {
  std::unique_ptr<void, Free> copy(std::aligned_alloc(kAlignment, (nbytes + kAlignment - 1) / kAlignment * kAlignment));
  TORCH_CHECK_WITH(OutOfMemoryError, copy, "the emulator's host has no memory left for an aligned copy of ", nbytes, " bytes");
  copy_bytes(copy.get(), data, int64_t(nbytes));
  return copy;
}

// A new array that reads `data` in place and owns nothing, or an aligned copy of it. Left to XLA the copy is made by another thread, and
// then the executable runs there too: a launch would return before its results are computed.
PyObject* import_memory(void* data, at::ScalarType dtype, const Shape& shape) {
  auto managed = std::make_unique<Managed>();
  managed->shape = shape;
  if (!is_aligned(data)) {
    managed->copy = aligned_copy(data, c10::multiply_integers(shape) * c10::elementSize(dtype));
    data = managed->copy.get();
  }
  DLTensor& t = managed->tensor.dl_tensor;
  t.data = data;
  t.device = {kDLCPU, 0};
  t.ndim = int32_t(shape.size());
  t.dtype = dlpack_type(dtype);
  t.shape = managed->shape.data();
  managed->tensor.manager_ctx = managed.get();
  managed->tensor.deleter = &delete_managed;
  PyObject* capsule = PyCapsule_New(&managed.release()->tensor, "dltensor", &delete_unused_capsule);
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

void copy_bytes(void* to, const void* from, int64_t count) {
  at::parallel_for(0, count, kBytesWorthAThread, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin, size_t(end - begin));
  });
}

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
  if (is_aligned(data) && block->imports.size() < kImportsPerBlock)
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
