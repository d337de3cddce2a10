"""What each finding means, an example and its fixes: `%neuron explain CODE`."""

from __future__ import annotations

from dataclasses import dataclass

from neuron_lab.errors import UsageProblem


@dataclass(frozen=True, slots=True)
class Explanation:
    """`meaning` says why it costs time or correctness; `example` is code that shows it, `fixes` what to write instead."""

    code: str
    title: str
    meaning: str
    example: str
    fixes: tuple[str, ...]


_ALL = (
    Explanation(
        "NRN011",
        "Timed cold",
        "The cell takes the time itself, and most of that time was compiling or loading NEFFs. It happens once for each "
        "signature; a second run is many times faster. A cold time must not be compared with a warm one.",
        "t = time.perf_counter(); model(x); print(time.perf_counter() - t)",
        ("run model(x) once before the clock starts", "%%neuron profile: the bar keeps compile and device apart"),
    ),
    Explanation(
        "NRN012",
        "Compiled again for another size",
        "A NEFF is made for the exact sizes of its inputs. When one size changes, every op that sees it is compiled again: the "
        "last, smaller batch of a loader; a sequence that grows by one token; sentences of every length.",
        "for x in loader: model(x)          # 64, 64, 64, 37",
        (
            "DataLoader(..., drop_last=True), or pad the last batch",
            "pad lengths to a few buckets, 32, 64, 128, and mask",
            "generation: allocate the key/value cache at its full length once and write into it",
        ),
    ),
    Explanation(
        "NRN013",
        "Compiled again for another value",
        "Some arguments are part of the signature by their value: dimensions, k of topk, lists of sizes, flags. Each new value is "
        "a new NEFF. Plain numbers that are added or multiplied are inputs and make none.",
        "for k in range(1, 50): scores.topk(k)",
        ("take the largest k once and slice the result", "make the value a tensor where the op allows it"),
    ),
    Explanation(
        "NRN014",
        "Many tiny NEFFs",
        "Eager execution launches one NEFF for each op. A function of many small pointwise ops spends its time on launches; a "
        "compiler makes one NEFF of the whole function.",
        "def activation(x): ...             # twenty lines of x * a + b, exp, tanh",
        (
            'torch.compile(activation, backend="neuron")',
            "a fused op of PyTorch that does the same (F.gelu, F.layer_norm, addcmul)",
        ),
    ),
    Explanation(
        "NRN015",
        "Traced again by torch.compile",
        "A compiled function is made for the Python values, dtypes and modes that it met; guards look at them before each call. When one "
        "fails, torch.compile traces the function and compiles its graphs anew. After eight times it gives up: the function then "
        "runs eagerly, as if it were not compiled, with no more than a line in the log.",
        "step = torch.compile(lambda x, k: x * k)\nfor k in range(20): step(x, k)",
        (
            "pass what changes as a tensor: torch.tensor(k)",
            "%neuron recompiles tells each guard that failed",
            "one compiled function for training and one for inference",
        ),
    ),
    Explanation(
        "NRN021",
        "64-bit values that become 32-bit",
        "TorchNeuron has no 64-bit arithmetic: float64 is computed as float32 and int64 as int32, while the tensor keeps its 64-bit "
        "dtype (its snapshot of April 2026; later ones may differ). Integers beyond 2,147,483,647 wrap without an error. The emulator "
        "computes all 64 bits and, while it records, looks whether a value leaves 32. Ops with 64-bit values that fit are marked 64→32 "
        "in the table and are no finding.",
        "hashes = ids * 2654435761          # int64, beyond 32 bits",
        ("use float32 or int32 and check the range", "keep the arithmetic that needs 64 bits on the CPU"),
    ),
    Explanation(
        "NRN031",
        "A result whose size depends on the data",
        "unique, nonzero, masked_select and indexing with a mask have results of a size nobody knows before the data is there. "
        "The program waits for the device to learn it, and every new size makes the ops that follow compile again.",
        "kept = x[x > 0]",
        (
            "keep the shape: torch.where(x > 0, x, 0), or multiply by the mask",
            "a fixed number of results: topk",
            "do it once, outside of the loop, on the CPU",
        ),
    ),
    Explanation(
        "NRN032",
        "Compiled here, on the CPU there",
        "The emulator compiles more ops than TorchNeuron does. Its snapshot of April 2026 has no kernel for these: on Trainium PyTorch "
        "copies their inputs to the host and runs them on the CPU, or refuses them where the CPU has none either. Later releases "
        "have more kernels. The finding's .ops names all of them.",
        "best = scores.argmax(-1)",
        (
            "look at it on Trainium first: a fallback outside of loops costs little",
            "topk(1) for argmax, (a - b).square().mean() for mse_loss, torch.where for maximum and minimum",
            "torch.compile makes one NEFF of the whole function and needs no kernel for each op",
        ),
    ),
    Explanation(
        "NRN033",
        "A CPU fallback in a loop",
        "The op has no kernel for the device. Its inputs are copied to the host, the CPU computes, the result is copied back. Once "
        "that is convenient; in a loop it is a wait for the device every time.",
        "for layer in layers: torch.linalg.svd(layer)",
        (
            "move it out of the loop, or to the CPU for good",
            "write it with ops that are compiled; .fallbacks has the reasons",
        ),
    ),
    Explanation(
        "NRN041",
        "A value is waited for in a loop",
        ".item(), float(t), bool(t) in an `if`, and printing a device tensor need the value now: Python stops until the device has "
        "finished all that was queued, so the device has nothing to do meanwhile.",
        "for x in loader: total += loss(x).item()",
        (
            "total += loss(x).detach()          # and total.item() after the loop",
            "log every hundredth step only",
            "print(t.cpu()): one copy, formatted on the CPU",
        ),
    ),
    Explanation(
        "NRN042",
        "Copies to the host in a loop",
        "Each copy to the host waits for the device. Many small ones cost more than one large one.",
        "for x in loader: results.append(model(x).cpu())",
        ("results.append(model(x)), then torch.cat(results).cpu() after the loop",),
    ),
    Explanation(
        "NRN051",
        "HBM nearly full",
        "The peak of a core came within a tenth of its HBM. A slightly larger batch or sequence does not fit, and profiling on "
        "Trainium itself reserves memory.",
        "model(huge_batch).sum().backward()",
        (
            "a smaller batch with gradient accumulation, or bfloat16",
            "torch.utils.checkpoint for activations",
            "%neuron memory names what is held; %neuron memory --free lets go of Out and the last traceback",
        ),
    ),
    Explanation(
        "NRN052",
        "Out of HBM",
        "A line asked for more than the core had left. What was in use is divided by the lines that took it and still held it; "
        "'from before' was there when the cell began. After the error the notebook keeps the failed functions' variables alive "
        "through the last traceback: run again, and there is even less room.",
        "loss = model(huge_batch).sum()",
        (
            "%neuron memory --free lets go of Out and the last traceback",
            "a smaller batch with gradient accumulation, or bfloat16",
            "torch.no_grad() for inference: no activations are kept; torch.utils.checkpoint for training",
            "keep loss.item() or loss.detach(), not loss, in lists: a loss keeps its whole graph",
        ),
    ),
    Explanation(
        "NRN053",
        "Kept alive by the notebook",
        "A cell's last expression stays in Out, under three more names, until the kernel ends; after an error the last traceback "
        "keeps the variables of the functions that failed. A result that can go backward keeps its activations as well. No variable "
        "of yours leads there, and each run adds to it. It is told from a hundredth of a core's HBM on.",
        "model(batch)          # the last line of a cell",
        (
            "model(batch);          # a semicolon: nothing is displayed and nothing is kept",
            "y = model(batch), and del y when it is done",
            "%neuron memory --free lets go of Out and the last traceback",
        ),
    ),
    Explanation(
        "NRN061",
        "A variable that was set too late",
        "The runtime reads some environment variables once, when the device starts. Setting them afterwards changes nothing.",
        "import torch; x = torch.ones(3, device='neuron'); os.environ['NEURON_RT_NUM_CORES'] = '1'",
        ("set it in the first cell, before import torch, and restart the kernel",),
    ),
)
EXPLANATIONS = {item.code: item for item in _ALL}


def explanation(code: str) -> Explanation:
    """Look a code up, in any case. Raises UsageProblem for one that does not exist."""
    found = EXPLANATIONS.get(code.upper())
    if found is None:
        raise UsageProblem(f"no finding is called {code!r}; there are {', '.join(EXPLANATIONS)}")
    return found
